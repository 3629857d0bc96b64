#pragma once

#include <optional>
#include <string>

#include <sinew/core/export.hpp>

namespace sinew {

/// All that a file holds; nullopt where it cannot be read to its end: absent, a folder, or, in /proc, of a process that
/// goes meanwhile. Never throws what a library's buffer throws there.
SINEW_API std::optional<std::string> file_text(const std::string& path);

}  // namespace sinew
