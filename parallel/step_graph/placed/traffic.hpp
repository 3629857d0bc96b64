#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/mesh/factorisation.hpp>
#include <sinew/parallel/step_graph/graph.hpp>

namespace sinew::parallel {

/// The traffic of the exchanges of a graph of computes.
struct StepTraffic {
  std::int32_t all_gathers = 0, reduce_scatters = 0, all_reduces = 0, all_to_alls = 0;
  std::int64_t bytes = 0;  ///< the fewest bytes that all ranks of a group together can send, with rings

  std::int32_t exchanges() const noexcept { return all_gathers + reduce_scatters + all_reduces + all_to_alls; }
  /// "2 all_reduces, 1 all_gather: 12 KiB"
  SINEW_API std::string to_string() const;
  friend bool operator==(const StepTraffic&, const StepTraffic&) = default;
};
/// The traffic of the nodes [first, last), or of all nodes.
SINEW_API StepTraffic traffic_of(const StepGraph& graph, const Factorisation& mesh, std::size_t first,
                                 std::size_t last);
SINEW_API StepTraffic traffic_of(const StepGraph& graph, const Factorisation& mesh);

}  // namespace sinew::parallel
