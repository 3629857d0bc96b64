#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <string>

#include <sinew/core/base/export.hpp>

namespace sinew {

/// All that a file holds, or its first `most` bytes where there are more; nullopt where it cannot be read to its end:
/// absent, a folder, or, in /proc, of a process that goes meanwhile. Never throws what a library's buffer throws there.
SINEW_API std::optional<std::string> file_text(const std::string& path,
                                               std::size_t most = std::numeric_limits<std::size_t>::max());

}  // namespace sinew
