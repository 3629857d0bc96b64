#pragma once

#include <cstdint>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/call/cost.hpp>
#include <sinew/parallel/planner/costs/collective_costs.hpp>
#include <sinew/parallel/planner/costs/question.hpp>

namespace sinew::parallel {

/// The elements that a rank has. shared: all parameters except those of experts.
struct HeldElements {
  double shared = 0, experts = 0;

  double all() const noexcept { return shared + experts; }
  HeldElements& operator+=(const HeldElements& o) noexcept {
    shared += o.shared;
    experts += o.experts;
    return *this;
  }
};

/// The elements of each stage, for the tensor-parallel rank that has most. The first stage has the embeddings, and the
/// last one the head.
SINEW_API std::vector<HeldElements> elements_of_stages(const PlanQuestion& question, const JobConfig& config);
/// Those of the pipeline rank that has most.
SINEW_API HeldElements most_held(const PlanQuestion& question, const JobConfig& config);

/// The times of the exchanges of data parallelism.
struct DataExchanges {
  Seconds sum = 0;           ///< of gradients
  Seconds gather = 0;        ///< of parameters, for the forward pass or after the update
  Seconds gather_again = 0;  ///< of parameters that were freed after the forward pass
};

/// Predicts the exchanges of the elements of a rank under ddp or ZeRO, with ZeRO++ if the configuration asks for it.
/// A quantised exchange sends int8_bytes() or int4_bytes(), which include the scales. To encode it and to decode it, a
/// rank reads all elements and writes all codes once, or the reverse, at the rate of its memory. The gather of near
/// copies sends plain elements between near ranks. A sum of int4 gradients goes to near ranks first, and then to far
/// ones. If shards are in a store, they are read before each gather and written after each sum.
SINEW_API DataExchanges data_exchanges(const PlanQuestion& question, const JobConfig& config, const HeldElements& held,
                                       CollectiveCosts& costs);

}  // namespace sinew::parallel
