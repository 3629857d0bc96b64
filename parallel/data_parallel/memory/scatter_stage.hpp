#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <sinew/parallel/mesh/factorisation.hpp>

namespace sinew::parallel {

/// The part that one exchange has in the sum of int4 gradients (GradientWire::int4). There are one or two such stages:
/// see DataOptions::scatter_axes.
struct ScatterStage {
  /// The ranks that exchange. 0: nothing is sent, because another stage has all ranks.
  int ranks = 0;
  bool is_first = false;  ///< it reads the gradients. Otherwise it reads the sums of the first stage, in f32
  bool is_last = false;   ///< it makes this rank's shard. Otherwise it makes sums in f32
  /// The shards that are sent, in the order of the ranks. Each rank gets as many. A first stage counts shards of the
  /// gradients. Another one counts the sums of the first stage.
  std::vector<int> shards;

  /// Shards that each rank receives from each other.
  std::size_t shards_each() const noexcept { return shards.size() / static_cast<std::size_t>(ranks); }
  /// Bytes of the codes that this rank sends, and of those that it receives: together.
  std::size_t coded_bytes(std::int64_t shard_elements) const noexcept;
};

/// The stage whose exchange runs along `axes`. `sharded`: the axes that shard. `scatter_axes`: as in DataOptions.
/// `axes` is `scatter_axes`, or the others of `sharded`. Without scatter_axes it is `sharded`.
ScatterStage scatter_stage(const Factorisation& shape, int rank, const std::string& sharded,
                           const std::string& scatter_axes, const std::string& axes);

}  // namespace sinew::parallel
