#pragma once

#include <cstddef>
#include <functional>
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

/// The graph of all placements that `choices` lead to. Its target is its first stop.
SINEW_API Roads roads_from(const TensorSpec& from, std::span<const Choices> choices, const Factorisation& mesh);

/// The cheapest path from the first stop to the target (Dijkstra). If several are equally cheap, it is the one with the
/// fewest steps.
/// answers: the time for each question of `roads`.
SINEW_API std::vector<Transition> cheapest_way(const Roads& roads, std::span<const Seconds> answers);

/// The cost of a move of a tensor that has the placements `before`. It is 0 or more.
using MoveCost = std::function<double(const Placements& before, const Move& move)>;
/// The same path to the stop `target`, for any cost. Transition::predicted is the cost of the step.
SINEW_API std::vector<Transition> cheapest_way(const Roads& roads, std::size_t target, const MoveCost& cost);

}  // namespace sinew::parallel
