#pragma once

#include <string_view>

#include <sinew/core/base/export.hpp>

namespace sinew {

/// The library that was loaded, as "major.minor.patch"; compare with SINEW_VERSION of the headers compiled against.
SINEW_API std::string_view version() noexcept;

}  // namespace sinew
