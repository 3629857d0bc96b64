#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <sinew/core/base/export.hpp>

namespace sinew {

/// What other users may do with a file that decides who takes part in a job.
enum class Guard : std::uint8_t {
  Secret,   ///< nothing: it is this user's, and no bit of 0077 is set
  Trusted,  ///< read it: it is this user's or root's, and no bit of 0022 is set
};

/// All that the file at `path`, which the variable `setting` names, holds; the open file is judged, not its name.
/// Errors: Error{InvalidArgument} "SETTING=PATH: ..." where it cannot be read, is no regular file, is not guarded so,
///         or holds more than `most` bytes, which ends with `instead`: what was expected.
SINEW_API std::string guarded_file(std::string_view setting, const std::string& path, Guard guard, std::size_t most,
                                   std::string_view instead);

}  // namespace sinew
