#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/core/base/export.hpp>

namespace sinew {

/// {0, 1, 2, 3, 8} <-> "0-3,8": the kernel's notation for sets of CPUs and nodes. Ascending, without repeats.
/// Errors: Error{InvalidArgument} that shows the text and the form.
SINEW_API std::vector<int> parse_cpu_list(std::string_view text);
SINEW_API std::string format_cpu_list(std::span<const int> numbers);

}  // namespace sinew
