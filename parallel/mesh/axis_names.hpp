#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sinew::parallel {

/// Splits "dp-cp" into "dp" and "cp". A name is empty if nothing lies before, after or between the '-'.
std::vector<std::string> split_names(std::string_view joined);

/// Joins names with '-'.
std::string join_names(const std::vector<std::string>& names);

}  // namespace sinew::parallel
