#pragma once

#include <span>
#include <string_view>

#include <sinew/core/export.hpp>
#include <sinew/core/fabric.hpp>

namespace sinew {

/// Every module of this build, in the order in which they are shown.
SINEW_API std::span<Module* const> all_modules() noexcept;

/// nullptr: nobody has that name.
SINEW_API Module* find_module(std::string_view name) noexcept;

}  // namespace sinew
