#include <algorithm>

#include <fmt/ranges.h>

#include <sinew/parallel/mesh/axis_names.hpp>

namespace sinew::parallel {

std::vector<std::string> split_names(std::string_view joined) {
  std::vector<std::string> names;
  for (std::size_t at = 0; at <= joined.size();) {
    const std::size_t end = std::min(joined.find('-', at), joined.size());
    names.emplace_back(joined.substr(at, end - at));
    at = end + 1;
  }
  return names;
}

std::string join_names(const std::vector<std::string>& names) { return fmt::format("{}", fmt::join(names, "-")); }

}  // namespace sinew::parallel
