#include <numeric>

#include <sinew/parallel/common/at.hpp>
#include <sinew/parallel/data_parallel/memory/scatter_stage.hpp>
#include <sinew/parallel/data_parallel/wire/coded_elements.hpp>

namespace sinew::parallel {
namespace {

std::vector<int> numbers_to(int count) {
  std::vector<int> numbers(at(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

}  // namespace

std::size_t ScatterStage::coded_bytes(std::int64_t shard_elements) const noexcept {
  return 2 * shards.size() * int4_bytes(static_cast<std::size_t>(shard_elements));
}

ScatterStage scatter_stage(const Factorisation& shape, int rank, const std::string& sharded,
                           const std::string& scatter_axes, const std::string& axes) {
  const int all = shape.size(sharded);
  if (scatter_axes.empty()) return {.ranks = all, .is_first = true, .is_last = true, .shards = numbers_to(all)};
  const int near = shape.size(scatter_axes), far = all / near;
  if (axes != scatter_axes) {
    if (far == 1 && near > 1) return {};
    return {.ranks = far, .is_first = near == 1, .is_last = true, .shards = numbers_to(far)};
  }
  if (near == 1) return {};
  std::vector<std::vector<int>> to(at(near));                     // the shards that each near rank receives
  const std::vector<int> owners = shape.group_of(rank, sharded);  // by shard
  // Ascending shards of one near rank belong to ascending far ranks, because both indices follow the same order of the
  // axes.
  for (int shard = 0; shard < all; ++shard) to[at(shape.index(owners[at(shard)], scatter_axes))].push_back(shard);
  ScatterStage stage{.ranks = near, .is_first = true, .is_last = far == 1, .shards = {}};
  for (const std::vector<int>& each : to) stage.shards.insert(stage.shards.end(), each.begin(), each.end());
  return stage;
}

}  // namespace sinew::parallel
