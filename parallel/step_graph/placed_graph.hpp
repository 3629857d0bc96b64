#pragma once

#include <cstdint>
#include <string>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/mesh/factorisation.hpp>
#include <sinew/parallel/step_graph/graph.hpp>

namespace sinew::parallel {

/// Proves that a graph of computes says what it does: every tensor is made once, before it is read, in a placement that
/// it can have; an exchange or split changes the placement along its one axis and nothing else; every compute accepts
/// its operands along every axis and leaves results as its rule says (ComputeRule, step_graph/bound_rule.hpp).
/// Returns what is wrong with the first bad node, naming tensor, axis, found and expected placement; empty: nothing.
SINEW_API std::string check_placements(const StepGraph& graph, const Factorisation& mesh);

/// Proves that two graphs that check_placements() passes make the same of the same: as exchanges and splits leave a
/// tensor as a whole what it is, the gates of both read the same computes of the same computes of the same signals, and
/// in the same placements.
/// Returns the first gate or signal in which they differ; empty: none.
SINEW_API std::string same_values(const StepGraph& before, const StepGraph& after, const Factorisation& mesh);

/// What exchanges of a graph of computes move.
struct StepTraffic {
  std::int32_t all_gathers = 0, reduce_scatters = 0, all_reduces = 0, all_to_alls = 0;
  std::int64_t bytes = 0;  ///< that the ranks of a group together send at least, by rings

  std::int32_t exchanges() const noexcept { return all_gathers + reduce_scatters + all_reduces + all_to_alls; }
  /// "2 all_reduces, 1 all_gather: 12 KiB"
  SINEW_API std::string to_string() const;
  friend bool operator==(const StepTraffic&, const StepTraffic&) = default;
};
/// Of nodes [first, last), and of all.
SINEW_API StepTraffic traffic_of(const StepGraph& graph, const Factorisation& mesh, std::size_t first,
                                 std::size_t last);
SINEW_API StepTraffic traffic_of(const StepGraph& graph, const Factorisation& mesh);

/// A graph that can run (check(), StepRunner): every compute and split is a gate of its name, at which its operands are
/// there, and a signal of its name, which says that the engine has made its tensors. Exchanges are waited for at once;
/// issue_early and wait_late of step_graph/passes.hpp move them apart.
SINEW_API StepGraph lower(const StepGraph& graph);

}  // namespace sinew::parallel
