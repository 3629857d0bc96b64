#pragma once

#include <filesystem>

namespace sinew::ucx {

/// Removes segments of UCX's posix transport that belong to this user and that no process has open or mapped. They
/// remain where a process was killed while it made one, or at any time with UCX_POSIX_USE_PROC_LINK=n. Their names tell
/// no owner: the kernel is asked, who knows the processes of other containers, too. Returns how many it removed.
int remove_stale_segments(const std::filesystem::path& folder);
/// Where UCX puts them: UCX_POSIX_DIR, or /dev/shm.
std::filesystem::path segment_folder();

}  // namespace sinew::ucx
