#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <string>

#include <sinew/core/base/export.hpp>

namespace sinew {

/// The value of an environment variable, nullopt if it is not set.
using Lookup = std::function<std::optional<std::string>(const char* name)>;
SINEW_API Lookup process_environment();

/// The whole number in a variable, nullopt if it is not set.
/// Errors: Error{InvalidArgument} with the variable, its value and the range.
SINEW_API std::optional<int> variable_number(const Lookup& lookup, const char* name, int least,
                                             int most = std::numeric_limits<int>::max());

}  // namespace sinew
