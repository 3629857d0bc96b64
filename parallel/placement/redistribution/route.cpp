#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include <sinew/core/call/cost_model.hpp>
#include <sinew/parallel/placement/normal_form.hpp>
#include <sinew/parallel/placement/redistribution/route.hpp>

namespace sinew::parallel {
namespace {

/// The cheapest path to a stop that was found so far.
struct Arrival {
  Seconds cost = std::numeric_limits<Seconds>::infinity();
  std::size_t steps = 0;
  std::size_t before = 0;
  Transition last;
};

Seconds time_of(const Move& move, const Roads& roads, std::span<const Seconds> answers) {
  const Seconds copies = Rate{assumed::kCopyBytesPerS}.seconds(static_cast<double>(move.copied_bytes));
  if (move.question.collective == Collective::Barrier) return copies;
  const auto asked = std::ranges::find(roads.questions, move.question) - roads.questions.begin();
  return copies + answers[static_cast<std::size_t>(asked)];
}

}  // namespace

Roads roads_from(const TensorSpec& from, std::span<const Choices> choices, const Factorisation& mesh) {
  TensorSpec spec = from;
  Roads roads;
  roads.stops.push_back(normal_form(from, mesh));
  std::map<std::string, std::size_t> known{{roads.stops.front().to_string(), 0}};
  for (std::size_t i = 0; i < roads.stops.size(); ++i) {
    spec.placements = roads.stops[i];
    roads.from.emplace_back();
    for (Move& move : moves_from(spec, choices, mesh)) {
      const auto [stop, is_new] = known.emplace(move.after.to_string(), roads.stops.size());
      if (is_new) roads.stops.push_back(move.after);
      const bool asks = move.question.collective != Collective::Barrier;
      if (asks && std::ranges::find(roads.questions, move.question) == roads.questions.end())
        roads.questions.push_back(move.question);
      roads.from.back().push_back({stop->second, std::move(move)});
    }
  }
  return roads;
}

Roads roads_between(const TensorSpec& from, const Placements& to, const Factorisation& mesh) {
  TensorSpec spec = from;
  spec.placements = to;
  const Placements target = normal_form(spec, mesh);
  Roads roads = roads_from(from, choices_between(normal_form(from, mesh), target), mesh);
  const auto found = std::ranges::find(roads.stops, target.to_string(), &Placements::to_string);
  roads.target = static_cast<std::size_t>(found - roads.stops.begin());
  return roads;
}

std::vector<Transition> cheapest_way(const Roads& roads, std::size_t target, const MoveCost& cost_of) {
  std::vector<Arrival> reached(roads.stops.size());
  std::set<std::tuple<double, std::size_t, std::size_t>> open{{0, 0, 0}};  // cost, steps, stop
  reached[0].cost = 0;
  while (!open.empty()) {
    const auto [cost, steps, here] = *open.begin();
    if (here == target) break;
    open.erase(open.begin());
    for (const auto& [there, move] : roads.from[here]) {
      const double step = cost_of(roads.stops[here], move);
      Arrival& next = reached[there];
      if (std::tuple(next.cost, next.steps) <= std::tuple(cost + step, steps + 1)) continue;
      open.erase({next.cost, next.steps, there});
      open.emplace(cost + step, steps + 1, there);
      next = {cost + step, steps + 1, here, {move.axis, move.from, move.to, move.question.collective, step}};
    }
  }
  std::vector<Transition> way;
  for (std::size_t at = target; at != 0; at = reached[at].before) way.push_back(reached[at].last);
  std::ranges::reverse(way);
  return way;
}

std::vector<Transition> cheapest_way(const Roads& roads, std::span<const Seconds> answers) {
  return cheapest_way(roads, roads.target,
                      [&](const Placements& /*before*/, const Move& move) { return time_of(move, roads, answers); });
}

}  // namespace sinew::parallel
