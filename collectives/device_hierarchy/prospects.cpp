#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include <sinew/collectives/device_hierarchy/prospects.hpp>
#include <sinew/collectives/selection/group_costs.hpp>
#include <sinew/core/call/determinism.hpp>
#include <sinew/core/config.hpp>
#include <sinew/core/dtype.hpp>
#include <sinew/core/error.hpp>

namespace sinew {
namespace {

using Among = HierarchyStep::Among;

/// The most device memory that a call may hold for blocks on their way through a rank. Other calls go through the host,
/// in segments.
constexpr std::size_t kMostScratch = 256 << 20;

/// Steps of a program for which this is equal take the same time. All pieces of a long call have such steps.
using Alike = std::tuple<Among, Collective, std::uint64_t>;
Alike alike(const HierarchyStep& step) { return {step.among, step.desc.collective, step.desc.count}; }

std::vector<int> ranks_of(const std::vector<int>& world_ranks, const std::vector<int>& members) {
  std::vector<int> ranks;
  for (const int m : members) ranks.push_back(world_ranks[static_cast<std::size_t>(m)]);
  return ranks;
}

/// Returns why the hosts cannot be treated alike. Empty: they can.
std::string difference(const Facts& facts, const std::vector<int>& world_ranks, const HostsOfGroup& hosts) {
  if (!hosts.are_equal) {
    const auto [fewest, most] = std::ranges::minmax(hosts.ranks_on, {}, &std::vector<int>::size);
    return fmt::format("its hosts have {} to {} of the ranks: expected equally many on each", fewest.size(),
                       most.size());
  }
  const std::string first = device_kind(facts.devices_of(ranks_of(world_ranks, hosts.ranks_on.front())));
  for (const std::vector<int>& on : hosts.ranks_on) {
    const std::string kind = device_kind(facts.devices_of(ranks_of(world_ranks, on)));
    if (kind != first) return fmt::format("its hosts differ: '{}' and '{}'", first, kind);
  }
  return {};
}

}  // namespace

HierarchyProspects::HierarchyProspects(const Facts& facts, const std::vector<int>& world_ranks,
                                       std::vector<NamedOffload> on_first_host)
    : hosts_(facts, world_ranks),
      offloads_(std::move(on_first_host)),
      on_host_(facts, ranks_of(world_ranks, hosts_.ranks_on.front()), offloads_),
      on_rail_(facts, ranks_of(world_ranks, hosts_.ranks_at(0)), {}),
      left_out_(difference(facts, world_ranks, hosts_)) {
  const std::vector<int> rail = ranks_of(world_ranks, hosts_.ranks_at(0));
  source_ = GroupCosts(facts, rail, on_rail_.cheapest()).source();
  for (const NamedOffload& o : offloads_) source_ = std::max(source_, o.offload->source());
}

Selection HierarchyProspects::select(const HierarchyStep& step, double sharing) const {
  if (step.among == Among::Host) return on_host_.select(step.desc);
  CollectiveDesc shared = step.desc;
  if (has_shared_counts(shared.collective)) {
    shared.collective = Collective::AllGather;
    shared.count = shared.counts.front();
    shared.counts = shared.displacements = {};
  }
  shared.count = static_cast<std::uint64_t>(std::ceil(static_cast<double>(shared.count) * sharing));
  return on_rail_.select(shared);
}

Availability HierarchyProspects::supports(const CollectiveDesc& desc) const {
  if (!left_out_.empty()) return Availability::no(left_out_);
  switch (desc.collective) {
    case Collective::AllGather:
    case Collective::ReduceScatter:
    case Collective::AllToAll:
      if (!hosts_.are_in_order)
        return Availability::no("the ranks are not numbered host by host, and blocks are in the order of the ranks");
      break;
    case Collective::AllReduce:
    case Collective::Broadcast: break;
    default: return Availability::no(fmt::format("{} has no {}", kDeviceHierarchy, name_of(desc.collective)));
  }
  if (desc.place.kind != MemoryKind::Device) return Availability::no("the buffers are host memory");
  if (desc.codec != Codec::None) return Availability::no("it sums on devices, where nothing is coded");
  if (reduces(desc.collective)) {
    if (desc.op == ReduceOp::User) return Availability::no("a user's operator runs on the host");
    if (desc.op == ReduceOp::Average && is_integer(desc.dtype))
      return Availability::no("an average of integers is rounded once, and here it would be rounded twice");
    if (desc.determinism != Determinism::Fast && order_shows(desc))
      return Availability::no("it sums within each host first, and not by the canonical tree");
  }
  try {
    const HierarchyProgram program = longest_hierarchy_program(desc, hosts_);
    if (program.scratch_bytes > kMostScratch)
      return Availability::no(fmt::format("it would hold {} of device memory beside the buffers, more than {}",
                                          format_bytes(program.scratch_bytes), format_bytes(kMostScratch)));
    std::set<Alike> seen;
    for (const HierarchyStep& s : program.steps) {
      if (!seen.insert(alike(s)).second) continue;
      if (s.among == Among::Host && select(s, 1).offload == nullptr)
        return Availability::no("within a host there is no way from device to device");
      for (const double sharing : {1.0, hosts_.ranks_per_nic}) static_cast<void>(select(s, sharing));
    }
  } catch (const Error& e) {
    return Availability::no(e.what());
  }
  return Availability::yes();
}

/// The ranks of the host and those of the rail work at the same time. Each of the two groups takes one step after the
/// other.
Seconds HierarchyProspects::predict(const CollectiveDesc& desc) const {
  const HierarchyProgram program = longest_hierarchy_program(desc, hosts_);
  std::map<Alike, Seconds> known;
  std::map<Among, Seconds> free;
  std::vector<Seconds> ends;
  for (const HierarchyStep& s : program.steps) {
    const auto [takes, is_new] = known.try_emplace(alike(s), 0);
    if (is_new) takes->second = select(s, hosts_.ranks_per_nic).plan.chosen().predicted;
    Seconds begin = free[s.among];
    for (const std::size_t n : s.needs) begin = std::max(begin, ends[n]);
    ends.push_back(free[s.among] = begin + takes->second);
  }
  return std::ranges::max(ends);
}

std::string HierarchyProspects::describe(const CollectiveDesc& desc) const {
  const HierarchyProgram program = longest_hierarchy_program(desc, hosts_);
  const auto way = [&](Among among) {
    const auto step = std::ranges::find(program.steps, among, &HierarchyStep::among);
    const Candidate chosen = select(*step, hosts_.ranks_per_nic).plan.chosen();
    return fmt::format("{}{}{}", chosen.algorithm, chosen.method.empty() ? "" : ", ", chosen.method);
  };
  const auto pieces = std::ranges::count(program.steps, Among::Rail, &HierarchyStep::among);
  return fmt::format("within each host {}; between the {} hosts, {} step{} for each of {} ranks of a host: {}",
                     way(Among::Host), hosts_.hosts(), pieces, pieces == 1 ? "" : "s", hosts_.ranks_per_host(),
                     way(Among::Rail));
}

}  // namespace sinew
