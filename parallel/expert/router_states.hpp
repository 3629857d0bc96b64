#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <sinew/collectives/communicator.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/parallel/expert/expert_load.hpp>

namespace sinew::parallel {

/// The routers of a step, summed over all ranks, layers and passes.
struct RouterReport {
  double auxiliary = 0;      ///< the balance loss with its coefficient, of a token and layer
  double z = 0;              ///< the z loss, likewise
  std::int64_t tokens = 0;   ///< tokens in all layers with experts
  std::int64_t routed = 0;   ///< assignments of tokens to experts
  std::int64_t dropped = 0;  ///< assignments that were dropped
  double imbalance = 0;      ///< the load of the most loaded expert divided by the mean of its layer; the worst layer's
  double most = 0;           ///< the most that `imbalance` can be: one expert has a choice of every token
  int worst_layer = 0;       ///< the layer of `imbalance`
  std::int64_t worst_expert = 0;
};

/// The state of a model's routers that no gradient updates: the biases of experts, and the loads that they follow. It
/// is the same on all ranks between steps.
/// Thread: the World's.
class SINEW_API RouterStates {
 public:
  /// layers: those with experts, of the whole model. rate: that by which biases follow the load in each step; 0: there
  /// are no biases.
  RouterStates(int layers, std::int64_t experts, double rate);

  bool has_biases() const noexcept { return rate_ > 0; }
  int layers() const noexcept { return static_cast<int>(layers_.size()); }
  /// Empty if there are no biases.
  std::span<const double> bias(int layer) const { return at(layer).bias; }
  std::span<double> bias(int layer) { return at(layer).bias; }
  ExpertLoad& load(int layer) { return at(layer).load; }

  /// A pass of a layer, as this rank has seen it. Each token is counted by one rank.
  struct Pass {
    double auxiliary = 0, z = 0;
    std::int64_t tokens = 0, dropped = 0;
  };
  void add(const Pass& pass);

  /// Sums the step over all ranks. Then biases follow the load, unless the step is skipped, and counting begins anew.
  /// Collective over `all`.
  RouterReport end_step(Communicator& all, bool is_skipped = false);

 private:
  struct Layer {
    ExpertLoad load;
    std::vector<double> bias;
  };
  Layer& at(int layer) { return layers_[static_cast<std::size_t>(layer)]; }
  const Layer& at(int layer) const { return layers_[static_cast<std::size_t>(layer)]; }

  double rate_;
  std::vector<Layer> layers_;
  Pass sum_;
};

}  // namespace sinew::parallel
