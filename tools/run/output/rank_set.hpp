#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sinew::run {

/// Some ranks of a job, as ranges: the first and the last rank of each.
using RankSet = std::vector<std::pair<int, int>>;

inline constexpr int kHighestRank = (1 << 16) - 1;

/// "0,8-15,100-" -> the ranges; "all" is every rank. `option` is what the text was given to.
/// Errors: Error{InvalidArgument} saying what was found and what was expected.
RankSet parse_ranks(std::string_view option, std::string_view text);

bool contains(const RankSet& set, int rank) noexcept;

/// Every rank that is not in `set`.
RankSet all_but(RankSet set);

/// A rank that is in both; -1: there is none.
int common_rank(const RankSet& a, const RankSet& b) noexcept;

/// "ranks 0-2, 7" or "rank 7". `ranks` ascend.
std::string ranges_of(const std::vector<int>& ranks);

}  // namespace sinew::run
