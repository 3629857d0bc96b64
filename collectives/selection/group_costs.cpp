#include <algorithm>

#include <sinew/collectives/selection/group_costs.hpp>

namespace sinew {

LinkCost GroupCosts::link(int from, int to) const {
  const LinkClass where =
      facts_.class_of(world_ranks_[static_cast<std::size_t>(from)], world_ranks_[static_cast<std::size_t>(to)]);
  const Facts::Link& link = *facts_.link(where, set_.by_class.at(where));
  return {.alone = link.reach.cost, .leaves_host = where.host_a != where.host_b, .source = link.source};
}

Rate GroupCosts::rate(LocalStep step, int /*rank*/, DType /*dtype*/) const {
  switch (step) {
    case LocalStep::Copy: return {facts_.copy_bytes_per_s, facts_.rates_source};
    case LocalStep::Reduce:
    case LocalStep::Code:  // a codec goes through the elements once, as a sum does
      return {facts_.reduce_bytes_per_s, facts_.rates_source};
    case LocalStep::PinnedCopy: return {assumed::kPinnedCopyBytesPerS, CostSource::Default};
  }
  return {};
}

CostSource GroupCosts::source() const {
  CostSource least = facts_.rates_source;
  for (const auto& [where, transport] : set_.by_class) least = std::max(least, facts_.link(where, transport)->source);
  return least;
}

}  // namespace sinew
