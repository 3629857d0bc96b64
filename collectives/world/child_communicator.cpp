#include <algorithm>
#include <array>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/collectives/device_hierarchy/hosts_of_group.hpp>
#include <sinew/collectives/device_hierarchy/prospects.hpp>
#include <sinew/collectives/virtual_cluster/planned_offload.hpp>
#include <sinew/collectives/virtual_cluster/virtual_world.hpp>
#include <sinew/collectives/world/child_communicator.hpp>
#include <sinew/collectives/world/id_ballot.hpp>
#include <sinew/collectives/world/making_offloads.hpp>
#include <sinew/core/error.hpp>

namespace sinew {
namespace {

/// Calls of these sizes, and users' rules, tell whether the hierarchy is ever chosen.
constexpr std::array<std::uint64_t, 3> kTried = {64 << 10, 4 << 20, 256 << 20};

bool is_ever_chosen(const CommunicatorState& s) {
  const auto ranks = static_cast<std::uint64_t>(s.group.size());
  const bool is_asked_for =
      std::ranges::any_of(s.world->facts.rules, [](const Rule& rule) { return rule.algorithm == kDeviceHierarchy; });
  if (is_asked_for) return true;
  for (const Collective collective : {Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter,
                                      Collective::AllToAll, Collective::Broadcast}) {
    const Blocks blocks = blocks_of(collective, ranks);
    for (const std::uint64_t bytes : kTried) {
      const CollectiveDesc desc{.collective = collective,
                                .dtype = DType::F32,
                                .place = {MemoryKind::Device, s.world->device},
                                .count = bytes / sizeof(float) / std::max(blocks.in, blocks.out)};
      try {
        const NamedOffload* chosen = s.selector->select(desc).offload;
        if (chosen != nullptr && chosen->offload->name() == kDeviceHierarchy) return true;
      } catch (const Error&) {
        continue;  // nothing can run it, which its caller will hear
      }
    }
  }
  return false;
}

/// Makes a communicator of `ranks`, which are numbers in the group of `s`. The other ranks of that group make theirs at
/// the same time.
std::shared_ptr<CommunicatorState> make_child(const CommunicatorState& s, const Exchange& all,
                                              const std::vector<int>& ranks, std::uint64_t number, std::string name) {
  const std::uint64_t seed = mix(s.group.identity + 1, number);
  Group group{0, {}, s.group.generation, choose_communicator_id(*s.world, seed, and_over(all)), 0, std::move(name)};
  group.identity = mix(seed, static_cast<std::uint64_t>(ranks.front()) + 1);
  group.rank = static_cast<int>(std::ranges::find(ranks, s.group.rank) - ranks.begin());
  for (const int r : ranks) group.world_ranks.push_back(s.group.world_rank(r));
  if (group.name.size() > kLongestGroupName) group.name.clear();
  return or_give_up(all, [&] { return CommunicatorState::make(s.keeps_world, std::move(group)); });
}

/// Makes the communicators of this rank's host, with these offloads, and of its rail. Returns why some rank could not,
/// or nothing if all could.
std::string make_children(CommunicatorState& s, const Exchange& all, const HostsOfGroup& hosts,
                          const std::vector<std::string>& offloads) {
  const auto self = static_cast<std::size_t>(s.group.rank);
  const int host = hosts.host_of[self];
  const int place = hosts.place_of[self];
  const std::vector<int>& beside = hosts.ranks_on[static_cast<std::size_t>(host)];
  auto on_host = make_child(s, all, beside, 1, fmt::format("{}, host {}", s.group.name, host));
  auto on_rail =
      make_child(s, all, hosts.ranks_at(place), 2, fmt::format("{}, place {} on all hosts", s.group.name, place));
  std::string failure;
  try {
    on_host->adopt(make_offloads(*s.world, on_host->group, exchange_among(all, beside), offloads));
    on_rail->adopt({});
  } catch (const std::exception& e) {
    failure = fmt::format("{}: {}", s.group.rank_text(s.group.rank), e.what());
  }
  const auto* text = reinterpret_cast<const std::byte*>(failure.data());
  for (const Bytes& theirs : all.all_gather({text, text + failure.size()})) {
    if (!theirs.empty()) return {reinterpret_cast<const char*>(theirs.data()), theirs.size()};
  }
  s.children = {std::make_shared<ChildCommunicator>(std::move(on_host)),
                std::make_shared<ChildCommunicator>(std::move(on_rail))};
  return {};
}

}  // namespace

PendingCall& ChildCommunicator::start(const CollectiveDesc& desc, ConstBuffer in, Buffer out, bool in_place,
                                      StreamRef after, std::uint64_t history) {
  if (!state_) throw Error(Code::Aborted, "the communicator of a part has been closed");
  state_->history = mix(state_->history, history);
  const CallOptions options{.after = after, .label = "a step of a hierarchical call", .where = {}};
  return state_->start_call(desc, in, out, in_place, options, {.is_within_progress = true});
}

void ChildCommunicator::end(const Status& reason) noexcept {
  if (state_) state_->end(reason);
}

bool ChildCommunicator::set_stream_priority(StreamPriority priority) {
  return state_ && state_->choose_stream_priority(priority);
}

std::size_t ChildCommunicator::memory_bytes() const { return state_ ? state_->own_memory_bytes() : 0; }

void ChildCommunicator::close() {
  if (!state_) return;
  const std::shared_ptr<WorldState> world = state_->keeps_world;
  std::shared_ptr<CommunicatorState> closing;
  world->locked([&] { closing = std::exchange(state_, nullptr); });
}

void add_device_hierarchy(CommunicatorState& s, const Exchange& all) {
  const Facts& facts = s.world->facts;
  const VirtualWorld* planned = s.world->options.virtual_world.get();
  const std::vector<int>& ranks = s.group.world_ranks;
  if (ranks.size() < 4 || facts.devices_of(ranks).empty()) return;
  const HostsOfGroup hosts(facts, ranks);
  if (hosts.hosts() < 2 || hosts.ranks_per_host() < 2) return;
  std::vector<int> on_first_host;
  for (const int r : hosts.ranks_on.front()) on_first_host.push_back(s.group.world_rank(r));
  const std::vector<std::string> names = planned != nullptr ? planned->device_offloads : facts.with_offload();
  std::vector<std::string> found;
  const auto prospects = [&] {
    std::vector<NamedOffload> offloads = planned_offloads(*s.world, on_first_host, names);
    // A kernel of NCCL occupies the device until its peers have come. So ranks that share communicators must start its
    // calls in one order. Steps start when others end, in an order that differs from rank to rank.
    std::erase_if(offloads, [](const NamedOffload& o) { return !o.offload->needs_progress(); });
    found.clear();
    for (const NamedOffload& o : offloads) found.push_back(o.transport);
    return std::make_unique<HierarchyProspects>(facts, ranks, std::move(offloads));
  };
  auto first = prospects();
  if (found.empty()) return;
  const std::string transport = fmt::format("{}", fmt::join(found, "+"));
  s.use_offload(transport, std::make_unique<PlannedOffload>(std::move(first)));
  if (planned != nullptr) return;
  std::string why =
      "another way was predicted to be faster for all sizes, so the communicators of its parts were not made";
  if (is_ever_chosen(s)) {
    why = make_children(s, all, hosts, found);
    if (why.empty())
      return s.use_offload(transport,
                           std::make_unique<DeviceHierarchy>(prospects(), *s.world->device_runtime, s.world->device,
                                                             s.group.rank, *s.children[0], *s.children[1]));
  }
  auto left_out = prospects();
  left_out->leave_out(std::move(why));
  s.use_offload(transport, std::make_unique<PlannedOffload>(std::move(left_out)));
}

}  // namespace sinew
