#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sinew::parallel {

/// "dp-cp" as "dp", "cp"; an empty name where nothing lies before, after or between the '-'.
std::vector<std::string> split_names(std::string_view joined);

/// The other way round.
std::string join_names(const std::vector<std::string>& names);

}  // namespace sinew::parallel
