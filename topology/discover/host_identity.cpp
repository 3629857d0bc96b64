#include <sys/stat.h>

#include <fmt/format.h>

#include <sinew/core/system/host_name.hpp>
#include <sinew/topology/discover/host_identity.hpp>
#include <sinew/topology/discover/sysfs.hpp>

namespace sinew {

std::string host_identity(const Config& config) {
  if (!config.host_id.empty()) return config.host_id;
  struct stat network {};
  const bool seen = stat("/proc/self/ns/net", &network) == 0;
  return fmt::format("{}/boot {}/net {}", host_name(), read_line("/proc/sys/kernel/random/boot_id").value_or("unknown"),
                     seen ? std::to_string(network.st_ino) : "unknown");
}

}  // namespace sinew
