#include <array>

#include <sinew/parallel/data_parallel/weighted_loss.hpp>

namespace sinew::parallel {

WeightedLoss total(Communicator& ranks, WeightedLoss mine, const CallOptions& options) {
  std::array<double, 2> both = {mine.sum, mine.weight};
  ranks.all_reduce(both, ReduceOp::Sum, options).get();
  return {both[0], both[1]};
}

}  // namespace sinew::parallel
