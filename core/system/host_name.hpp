#pragma once

#include <string>

#include <sinew/core/base/export.hpp>

namespace sinew {

/// This host as its kernel calls it, with its domain where that has one.
SINEW_API std::string host_name();

}  // namespace sinew
