#include <algorithm>
#include <set>
#include <utility>

#include <sinew/collectives/selection/transport_sets.hpp>

namespace sinew {
namespace {

std::string first_obstacle(const Facts& facts, const GroupShape& shape, const std::string& transport) {
  for (const GroupShape::Pair& pair : shape.pairs) {
    const Facts::Link* link = facts.link(pair.where, transport);
    if (link == nullptr) return "was not opened";
    if (!link->reach.ok) return link->reach.reason;
  }
  return {};
}

/// Fills in what follows from the set's links.
void complete(TransportSet& set, const Facts& facts) {
  set.by_nic = true;
  for (const auto& [where, transport] : set.by_class) {
    if (where.host_a == where.host_b) continue;
    set.by_nic = set.by_nic && facts.by_nic.contains(transport);
    set.most_scratch = std::max(set.most_scratch, scratch_to_fill(facts.link(where, transport)->reach.cost));
  }
}

/// The cheapest transport of each class for a message of so many bytes.
TransportSet cheapest_for(double bytes, const Facts& facts, const GroupShape& shape) {
  TransportSet set;
  std::set<std::string> names;
  for (const GroupShape::Pair& pair : shape.pairs) {
    const Facts::Link* best = nullptr;
    for (const Facts::Link& l : facts.links.at(pair.where)) {
      if (l.reach.ok && (best == nullptr || l.reach.cost.seconds(bytes) < best->reach.cost.seconds(bytes))) best = &l;
    }
    if (best == nullptr) continue;
    set.by_class.emplace(pair.where, best->transport);
    names.insert(best->transport);
  }
  for (const std::string& n : names) set.label += set.label.empty() ? n : "+" + n;
  complete(set, facts);
  return set;
}

}  // namespace

TransportSets::TransportSets(const Facts& facts, const GroupShape& shape) {
  if (shape.ranks() == 1) {
    usable_.push_back({"none", {}});
    return;
  }
  for (const std::string& t : facts.transports) {
    if (const std::string why = first_obstacle(facts, shape, t); !why.empty()) {
      rejected_.push_back({"*", t, "", 0, why});
      continue;
    }
    TransportSet set{t, {}};
    for (const GroupShape::Pair& pair : shape.pairs) set.by_class.emplace(pair.where, t);
    complete(set, facts);
    usable_.push_back(std::move(set));
  }
  cheapest_ = cheapest_for(4096, facts, shape);  // not a page: a message of medium length
  const bool mixed = std::ranges::none_of(usable_, [&](const TransportSet& s) { return s.label == cheapest_.label; });
  if (mixed && cheapest_.by_class.size() == shape.pairs.size()) usable_.push_back(cheapest_);
}

Segmentation segmentation_on(const TransportSet& set, const GroupShape& shape, std::uint64_t scratch_bytes) noexcept {
  return {.segment_bytes = kSegmentation.segment_bytes,
          .depth = shape.hosts > 1 ? kDepthAcrossHosts : kSegmentation.depth,
          .scratch_bytes = scratch_bytes,
          .most_scratch = set.most_scratch};
}

}  // namespace sinew
