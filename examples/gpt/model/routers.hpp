#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <sinew/collectives/communicator.hpp>
#include <sinew/parallel/expert/expert_load.hpp>

#include "../shape.hpp"

namespace gpt {

/// What the routers of a step came to, over all ranks, blocks and passes.
struct RouterReport {
  double auxiliary = 0;      ///< balance loss with its coefficient, of a token and block
  double z = 0;              ///< likewise
  std::int64_t tokens = 0;   ///< in all blocks with experts
  std::int64_t routed = 0;   ///< assignments
  std::int64_t dropped = 0;  ///< of these
  double imbalance = 0;      ///< the most loaded expert's load by the mean of its block's; of the worst block
  double most = 0;           ///< that imbalance can be: one expert has a choice of every token
  int worst_block = 0;
  std::int64_t worst_expert = 0;
};

/// State of the routers of a model that no gradient updates: biases and the loads that they follow. The same on all
/// ranks between steps.
class Routers {
 public:
  explicit Routers(const Shape& shape);

  /// Of a block that has experts; empty where there are no biases.
  std::span<const double> bias(int block) const;
  std::span<double> bias(int block);
  bool has_biases() const noexcept { return rate_ > 0; }

  /// Of a pass through a block, as this rank has seen it; each token is counted by one rank.
  struct Pass {
    double auxiliary = 0, z = 0;
    std::int64_t tokens = 0, dropped = 0;
  };
  sinew::parallel::ExpertLoad& load(int block) { return at(block).load; }
  void add(const Pass& pass);

  /// The total over all ranks; then biases follow it, unless the step is skipped, and it begins anew. Collective.
  RouterReport end_step(sinew::Communicator& all, bool is_skipped = false);

 private:
  struct Block {
    sinew::parallel::ExpertLoad load;
    std::vector<double> bias;
  };
  Block& at(int block) { return blocks_[static_cast<std::size_t>((block + 1) / every_ - 1)]; }
  const Block& at(int block) const { return blocks_[static_cast<std::size_t>((block + 1) / every_ - 1)]; }

  int every_;
  double rate_;
  std::vector<Block> blocks_;  // those with experts
  Pass sum_;
};

}  // namespace gpt
