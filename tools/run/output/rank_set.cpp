#include "rank_set.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/base/parse_number.hpp>
#include <sinew/core/base/shown_value.hpp>
#include <sinew/core/error.hpp>

namespace sinew::run {

RankSet parse_ranks(std::string_view option, std::string_view text) {
  if (text == "all") return {{0, kHighestRank}};
  const auto reject = [&] {
    throw Error(Code::InvalidArgument, fmt::format("{}={}: expected ranks of 0 to {}, such as 0 or 0,8-15, or all",
                                                   option, shown_value(text), kHighestRank));
  };
  RankSet set;
  for (std::string_view rest = text; !rest.empty() || set.empty();) {
    const std::string_view item = rest.substr(0, rest.find(','));
    const bool is_last = item.size() == rest.size();
    rest = is_last ? std::string_view() : rest.substr(item.size() + 1);
    if (!is_last && rest.empty()) reject();
    const std::size_t dash = item.find('-');
    const auto first = parse_number<int>(item.substr(0, dash));
    const bool is_open = dash != std::string_view::npos && dash + 1 == item.size();
    const auto last = dash == std::string_view::npos ? first
                      : is_open                      ? std::optional(kHighestRank)
                                                     : parse_number<int>(item.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *last > kHighestRank) reject();
    set.emplace_back(first.value_or(0), last.value_or(0));
  }
  return set;
}

bool contains(const RankSet& set, int rank) noexcept {
  return std::ranges::any_of(set, [rank](const auto& r) { return r.first <= rank && rank <= r.second; });
}

RankSet all_but(RankSet set) {
  std::ranges::sort(set);
  RankSet rest;
  int next = 0;
  for (const auto& [first, last] : set) {
    if (first > next) rest.emplace_back(next, first - 1);
    next = std::max(next, last + 1);
  }
  if (next <= kHighestRank) rest.emplace_back(next, kHighestRank);
  return rest;
}

int common_rank(const RankSet& a, const RankSet& b) noexcept {
  for (const auto& [first, last] : a) {
    for (const auto& [other_first, other_last] : b) {
      const int lowest = std::max(first, other_first);
      if (lowest <= std::min(last, other_last)) return lowest;
    }
  }
  return -1;
}

std::string ranges_of(const std::vector<int>& ranks) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    const bool is_pair = end == i + 2;
    if (is_pair) --end;  // "3, 4", not "3-4"
    parts.push_back(end == i + 1 ? fmt::format("{}", ranks[i]) : fmt::format("{}-{}", ranks[i], ranks[end - 1]));
    i = end;
  }
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(parts, ", "));
}

}  // namespace sinew::run
