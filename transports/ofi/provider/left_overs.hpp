#pragma once

#include <filesystem>
#include <string>

namespace sinew::ofi {

/// What libfabric's shm provider calls its segment in /dev/shm: "OWNER:SERIAL". The owner says which process of which
/// pid namespace made it, and when that process began, so that a reused pid is not taken for it.
struct OwnName {
  std::string owner;   ///< "sinew-ofi-NAMESPACE-PID-START"
  std::string serial;  ///< tells the transports of one process apart
};
OwnName new_own_name();

/// Removes the segments of this user whose processes have died (SIGKILL leaves 16 MiB each); those of other users,
/// other programs and other pid namespaces are left alone. Returns how many it removed.
int remove_left_overs(const std::filesystem::path& folder = "/dev/shm");

/// Equal text: two processes see the same segments and the same process ids.
std::string shared_memory_place();

}  // namespace sinew::ofi
