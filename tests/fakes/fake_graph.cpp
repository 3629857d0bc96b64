#include "fakes/fake_graph.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

namespace sinew::fake {

std::size_t Graph::lane_of(void* stream) {
  const auto at = std::ranges::find(lanes, stream, &Lane::stream);
  if (at != lanes.end()) return static_cast<std::size_t>(std::distance(lanes.begin(), at));
  lanes.push_back({stream});
  return lanes.size() - 1;
}

void Graph::add_work(void* stream, StepMaker make) {
  const std::size_t lane = lane_of(stream);
  nodes.push_back({Node::Kind::Work, lane, std::move(make)});
  ++lanes[lane].nodes;
}

std::size_t Graph::record(void* stream) {
  const std::size_t lane = lane_of(stream);
  events.push_back({lane, lanes[lane].nodes});
  nodes.push_back({Node::Kind::Record, lane, {}, events.size() - 1});
  return events.size() - 1;
}

void Graph::wait(void* stream, std::size_t event) {
  const std::size_t lane = lane_of(stream);
  const Event& of = events[event];
  nodes.push_back({Node::Kind::Wait, lane, {}, event});
  if (of.lane != lane) lanes[of.lane].joined = std::max(lanes[of.lane].joined, of.nodes);
}

std::string Graph::unjoined() const {
  for (std::size_t l = 1; l < lanes.size(); ++l) {
    if (lanes[l].joined < lanes[l].nodes) {
      return fmt::format("{} of {} nodes of lane {} were not joined", lanes[l].nodes - lanes[l].joined, lanes[l].nodes,
                         l);
    }
  }
  return {};
}

}  // namespace sinew::fake
