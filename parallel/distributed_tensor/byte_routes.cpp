#include <algorithm>

#include <sinew/parallel/distributed_tensor/byte_routes.hpp>
#include <sinew/parallel/step_graph/placed/move.hpp>

namespace sinew::parallel {
namespace {

/// For each axis: Replicate, its placements at either end, and even shards of all dimensions that any axis shards.
std::vector<Choices> choices_among(const Placements& from, std::span<const Placements> targets) {
  std::vector<Choices> all;
  for (const Placements& to : targets) {
    for (const Choices& more : choices_between(from, to)) {
      auto known = std::ranges::find(all, more.axis, &Choices::axis);
      if (known == all.end()) known = all.insert(all.end(), {more.axis, {}});
      for (const Placement& placement : more.placements) {
        if (std::ranges::find(known->placements, placement) == known->placements.end())
          known->placements.push_back(placement);
      }
    }
  }
  return all;
}

}  // namespace

std::vector<int> leaders_along(std::string_view axis, const Factorisation& mesh) {
  std::vector<int> leaders;
  for (const std::vector<int>& group : mesh.groups(axis)) leaders.push_back(group.front());
  return leaders;
}

std::int64_t bytes_of_move(const TensorSpec& before, std::string_view axis, const Placement& from, const Placement& to,
                           const Factorisation& mesh, std::span<const int> leaders) {
  StepTensor tensor;
  tensor.dtype = before.dtype;
  tensor.shape = before.shape;
  tensor.placements = before.placements;
  std::int64_t bytes = 0;
  for (const int leader : leaders) bytes += sent_by_move(tensor, axis, from, to, mesh, leader);
  return bytes;
}

ByteRoutes::ByteRoutes(const TensorSpec& from, std::span<const Placements> targets, const Factorisation& mesh)
    : from_(from), mesh_(mesh) {
  const bool moves = std::ranges::any_of(targets, [&](const Placements& to) { return to != from.placements; });
  if (moves) roads_ = roads_from(from, choices_among(from.placements, targets), mesh);
  for (const auto& roads : roads_.from) {
    for (const Roads::Road& road : roads) {
      if (!leaders_.contains(road.move.axis)) leaders_.emplace(road.move.axis, leaders_along(road.move.axis, mesh));
    }
  }
}

const ByteRoute& ByteRoutes::route(const Placements& to) const {
  const std::string key = to.to_string();
  if (const auto known = found_.find(key); known != found_.end()) return known->second;
  ByteRoute route{{from_, to, {}}, 0};
  if (to != from_.placements) {
    const auto stop = std::ranges::find(roads_.stops, to) - roads_.stops.begin();
    TensorSpec spec = from_;
    route.plan.steps =
        cheapest_way(roads_, static_cast<std::size_t>(stop), [&](const Placements& before, const Move& move) {
          const auto [cost, is_new] = costs_.emplace(&move, 0);
          if (!is_new || move.question.collective == Collective::Barrier) return cost->second;
          spec.placements = before;
          cost->second =
              static_cast<double>(bytes_of_move(spec, move.axis, move.from, move.to, mesh_, leaders_.at(move.axis)));
          return cost->second;
        });
    for (Transition& step : route.plan.steps) {
      route.bytes += static_cast<std::int64_t>(step.predicted);
      step.predicted = 0;  // a number of bytes, not a time
    }
  }
  return found_.emplace(key, std::move(route)).first->second;
}

}  // namespace sinew::parallel
