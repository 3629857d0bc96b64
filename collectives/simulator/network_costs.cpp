#include <algorithm>
#include <limits>

#include <sinew/collectives/simulator/network_costs.hpp>

namespace sinew {
namespace {

Resource resource_of(Tier tier) noexcept {
  switch (tier) {
    case Tier::RankOut:
    case Tier::RankIn: return Resource::Port;
    case Tier::Memory: return Resource::Memory;
    case Tier::PciOut:
    case Tier::PciIn: return Resource::Pci;
    case Tier::NicOut:
    case Tier::NicIn: return Resource::Nic;
    case Tier::LeafUp:
    case Tier::LeafDown: return Resource::Leaf;
  }
  return Resource::Port;
}

}  // namespace

LinkCost NetworkCosts::link(int from, int to) const {
  constexpr double kAnyBytes = 1 << 20;  // any size: the bandwidth is the same for all sizes
  LinkCost cost{.leaves_host = network_.host_of(from) != network_.host_of(to), .source = CostSource::Catalog};
  double slowest = std::numeric_limits<double>::infinity();
  for (const NetworkLink& link : network_.route(from, to)) {
    const LinkRate& rate = network_.rate(link.tier);
    cost.alone.latency_s += rate.latency_s;
    if (rate.bytes_per_s == 0) continue;  // such a link never limits messages
    cost.passes.push_back({resource_of(link.tier), rate.bytes_per_s});
    slowest = std::min(slowest, rate.bytes_per_s);
  }
  if (!cost.passes.empty()) cost.alone.knots.push_back({kAnyBytes, slowest});
  return cost;
}

Rate NetworkCosts::rate(LocalStep step, int /*rank*/, DType /*dtype*/) const {
  switch (step) {
    case LocalStep::Copy: return {network_.copy_bytes_per_s, CostSource::Catalog};
    case LocalStep::Reduce:
    case LocalStep::Code:  // a codec goes through the elements once, as a sum does
      return {network_.reduce_bytes_per_s, CostSource::Catalog};
    case LocalStep::PinnedCopy: return {assumed::kPinnedCopyBytesPerS, CostSource::Default};
  }
  return {};
}

}  // namespace sinew
