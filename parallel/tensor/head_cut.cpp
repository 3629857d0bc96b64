#include <cstdlib>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/tensor/head_cut.hpp>

namespace sinew::parallel {
namespace {

constexpr std::int64_t kMostHeads = std::int64_t{1} << 24;

std::int64_t nearest_divisor(std::int64_t of, std::int64_t to) {
  std::int64_t best = 1;
  for (std::int64_t d = 1; d <= of; ++d) {
    if (of % d == 0 && std::abs(d - to) < std::abs(best - to)) best = d;
  }
  return best;
}

}  // namespace

HeadCut cut_heads(std::int64_t heads, std::int64_t key_value_heads, int rank, int ranks) {
  if (heads < 1 || heads > kMostHeads || key_value_heads < 1 || ranks < 1 || rank < 0 || rank >= ranks)
    throw Error(Code::InvalidArgument,
                fmt::format("attention: {} heads, {} of keys and values, rank {} of {}: expected 1 to {} of each, and "
                            "a rank among them",
                            heads, key_value_heads, rank, ranks, kMostHeads));
  if (heads % key_value_heads != 0)
    throw Error(Code::InvalidArgument,
                fmt::format("attention: {} heads of keys and values do not divide {} heads, expected {}",
                            key_value_heads, heads, nearest_divisor(heads, key_value_heads)));
  const std::int64_t each = heads / key_value_heads;
  HeadCut cut{rows_of({}, rank, ranks, heads), {}, true};
  for (int r = 0; r < ranks; ++r) {
    const Rows theirs = rows_of({}, r, ranks, heads);
    if (theirs.first % each != 0 || theirs.last % each != 0) cut.key_values_cut = false;
  }
  if (cut.queries.count() == 0) {
    cut.key_values = {cut.queries.first / each, cut.queries.first / each};
  } else {
    cut.key_values = {cut.queries.first / each, (cut.queries.last + each - 1) / each};
  }
  return cut;
}

}  // namespace sinew::parallel
