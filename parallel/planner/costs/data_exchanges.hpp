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

/// The times of exchanges of so many elements under ddp or ZeRO, with ZeRO++ if the configuration asks for it. Bytes of
/// quantised exchanges are those of int8_bytes() and int4_bytes(), with their scales. Encoding and decoding reads and
/// writes elements and codes once, at the rate of the rank's memory. Gathers of near copies stay within the near ranks,
/// and send plain elements. int4 gradients are sent to near ranks first, and then to far ones. Shards in a store are
/// read before each gather, and written after each sum.
SINEW_API DataExchanges data_exchanges(const PlanQuestion& question, const JobConfig& config, const HeldElements& held,
                                       CollectiveCosts& costs);

}  // namespace sinew::parallel
