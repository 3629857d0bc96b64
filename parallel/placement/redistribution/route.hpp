#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/call/cost.hpp>
#include <sinew/parallel/placement/redistribution/moves.hpp>
#include <sinew/parallel/placement/redistribution/redistribute.hpp>

namespace sinew::parallel {

/// The graph that the search goes through: placements are its nodes, and moves its edges. It is the same on all ranks,
/// in the same order.
struct Roads {
  struct Road {
    std::size_t to = 0;  ///< an index of `stops`
    Move move;
  };
  std::vector<Placements> stops;  ///< in normal form; the first one is the start
  std::vector<std::vector<Road>> from;
  std::size_t target = 0;
  std::vector<Question> questions;  ///< of all moves, each once
};

/// Shape: valid specs.
SINEW_API Roads roads_between(const TensorSpec& from, const Placements& to, const Factorisation& mesh);

/// The cheapest path from the first stop to the target (Dijkstra). If several are equally cheap, it is the one with the
/// fewest steps.
/// answers: the time for each question of `roads`.
SINEW_API std::vector<Transition> cheapest_way(const Roads& roads, std::span<const Seconds> answers);

}  // namespace sinew::parallel
