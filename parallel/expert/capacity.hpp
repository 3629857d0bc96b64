#pragma once

#include <cstdint>
#include <vector>

#include <sinew/collectives/communicator.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/parallel/common/call_group.hpp>
#include <sinew/parallel/expert/router.hpp>
#include <sinew/parallel/expert/routing.hpp>

namespace sinew::parallel {

/// Decides which assignments an expert keeps if it gets more than its capacity.
enum class DropPolicy : std::uint8_t {
  Position,     ///< those of the first positions
  Probability,  ///< those with the largest gates; of equal gates the first positions
};

/// The number of assignments that an expert keeps.
struct CapacityShape {
  /// An expert keeps ceil(tokens of a sequence * top_k / experts * factor) assignments of a sequence. 0: it keeps all.
  double factor = 0;
  DropPolicy policy = DropPolicy::Probability;
};

/// Drops assignments beyond the capacity of an expert for a sequence. Assignments are counted over all ranks that share
/// the sequence. So the dropped tokens do not depend on how sequences are cut, or spread over ranks and passes.
/// Thread:   the World's.
/// Lifetime: ends before the communicator.
/// Cost:     an all_gather of 1 + top_k f64 for each token (1 + 2 top_k with Probability) over the ranks that share
///           sequences, and a sort of them.
/// Source:   capacity: Lepikhin et al., GShard, arXiv 2006.16668, whose groups are sequences here.
template <class T>
class SINEW_API CapacityLimit {
 public:
  /// group: the ranks that share sequences. tokens: the number of this rank's tokens in each call.
  /// Errors: InvalidArgument for a factor below 0. Collective over the group.
  CapacityLimit(CallGroup group, const RouterShape& router, const CapacityShape& shape, std::int64_t tokens);

  /// The capacity of an expert for a sequence of `length` tokens.
  std::int64_t capacity(std::int64_t length) const noexcept;
  /// Replaces dropped experts by kNoExpert. Returns how many assignments of this rank were dropped.
  std::int64_t apply(Routing<T>& routing, const TokenPositions& where);

 private:
  std::size_t record() const noexcept;

  CallGroup group_;
  std::int64_t experts_, top_k_;
  CapacityShape shape_;
  std::vector<std::uint64_t> counts_;  // elements of each rank
  std::size_t mine_ = 0;               // the first of this rank's
};

extern template class CapacityLimit<float>;
extern template class CapacityLimit<double>;

}  // namespace sinew::parallel
