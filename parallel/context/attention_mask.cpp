#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/context/attention_mask.hpp>

namespace sinew::parallel {

AttentionMask::AttentionMask(bool causal, std::vector<std::int64_t> starts)
    : causal_(causal), starts_(std::move(starts)) {
  const bool ascend = std::ranges::adjacent_find(starts_, std::greater_equal{}) == starts_.end();
  if (!ascend || (!starts_.empty() && starts_.front() < 0))
    throw Error(
        Code::InvalidArgument,
        fmt::format("documents that begin at {}: expected positions from 0 on that ascend", fmt::join(starts_, ", ")));
}

Rows AttentionMask::seen(std::int64_t position) const noexcept {
  const auto next = std::ranges::upper_bound(starts_, position);
  const std::int64_t first = next == starts_.begin() ? 0 : *(next - 1);
  if (causal_) return {first, position + 1};
  return {first, next == starts_.end() ? std::numeric_limits<std::int64_t>::max() : *next};
}

std::int64_t AttentionMask::pairs(const Rows& queries, std::int64_t length) const noexcept {
  std::int64_t sum = 0;
  for (std::int64_t p = queries.first; p < queries.last; ++p) {
    const Rows keys = seen(p);
    sum += std::min(keys.last, length) - keys.first;
  }
  return sum;
}

}  // namespace sinew::parallel
