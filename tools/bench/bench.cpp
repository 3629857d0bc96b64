#include "bench.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <sinew/tools/bench/buffers/enough_memory.hpp>
#include <sinew/tools/bench/measurement/sinew_contestant.hpp>
#include <sinew/tools/bench/report/link_count.hpp>
#include <sinew/tools/common/command_line.hpp>
#include <sinew/topology/cluster/gather_cluster.hpp>

namespace sinew::tools {
namespace {

constexpr std::size_t kMostSlots = 4096;  // not a page: calls in a batch
constexpr std::size_t kMostRingBytes = 256u << 20;
constexpr std::size_t kMostRegisteredBytes = 128u << 20;

/// The data of a run, and how right its results must be.
check::ExactRows rows_of(const BenchOptions& options, int ranks) {
  const bool sums = reduces(options.what->collective);
  if (options.codec == Codec::None) return {options.dtype, options.op, sums, ranks};
  const int codings = !sums ? 1 : options.what->collective == Collective::AllReduce ? ranks : ranks - 1;
  return {options.codec, codings, options.op, sums, ranks};
}

/// A latency is one way; a call went there and back.
void halve(Measurement& m) {
  m.ours.seconds /= 2;
  m.ours.p99_seconds /= 2;
  if (m.peer) m.peer->seconds /= 2;
}

}  // namespace

Plan plan_of(const BenchOptions& options, World& world, std::uint64_t count, Place place) {
  const std::vector<std::uint64_t> counts = skewed_counts(*options.what, world.rank(), world.size(), count);
  CollectiveDesc desc = desc_of(options, count, counts, world.size());
  desc.place = place;
  return world.communicator().plan(desc);
}

Bench::Bench(const BenchOptions& options, World& world, const LoadedPeer* peer, const VirtualWorld* virtual_world)
    : options_(options),
      world_(world),
      peer_(peer),
      virtual_world_(virtual_world),
      ranks_(world.communicator()),
      cluster_(gather_cluster(ranks_.exchange(), Config::from_environment())),
      noise_(ranks_, ranks_to_account(), ranks_fit()) {
  if (options.on_device && !options.predicts_only()) make_device();
  facts_ = {.ranks = world.size(),
            .hosts = static_cast<int>(cluster_.hosts.size()),
            .peer = peer == nullptr ? "" : peer->functions().name(),
            .costs = virtual_world == nullptr ? world.costs() : ""};
  if (virtual_world == nullptr) return;
  facts_.hosts = virtual_world->on.network.hosts;
  facts_.virtual_cluster = virtual_world->on.name;
  facts_.assumed = virtual_world->on.assumed;
  facts_.network = virtual_world->on.network;
}

void Bench::make_device() {
  const std::vector<int> here = cluster_.ranks_on_host(world_.rank());
  std::string lack;
  try {
    device_ = std::make_unique<DeviceMemory>(static_cast<int>(std::ranges::find(here, world_.rank()) - here.begin()));
  } catch (const Error& e) {
    lack = e.what();
  }
  if (ranks_.largest(lack.empty() ? 0 : 1) == 0) return;
  throw UsageError(fmt::format("--device: expected an accelerator for each rank; {}",
                               lack.empty() ? "another rank has none" : lack));
}

std::vector<int> Bench::ranks_to_account() const {
  return virtual_world_ == nullptr ? cluster_.ranks_on_host(world_.rank()) : std::vector<int>{0};
}

void Bench::require_memory() {
  if (options_.predicts_only()) return;
  const BenchCase& what = *options_.what;
  const std::uint64_t count = options_.max_bytes / unit_bytes(what, options_.dtype, world_.size());
  std::uint64_t elements = 0;
  for (const int r : cluster_.ranks_on_host(world_.rank())) {
    const RankData data = data_of(what, r, world_.size(), count, options_.root);
    elements += data.in_elements + data.out_elements;
  }
  const std::string lack = lack_of_memory(elements * size_of(options_.dtype), available_memory());
  if (ranks_.largest(lack.empty() ? 0 : 1) == 0) return;
  throw UsageError(fmt::format("-e {}: {}", format_bytes(options_.max_bytes),
                               lack.empty() ? "another host has too little memory for it" : lack));
}

Line Bench::measure_size(std::uint64_t bytes) {
  const std::size_t element = size_of(options_.dtype);
  Line line;
  line.bytes = bytes;
  line.count = bytes / unit_bytes(*options_.what, options_.dtype, world_.size());
  add_plan(line);
  if (options_.predicts_only()) {
    line.measured.timed = false;
    return line;
  }
  const RankData data = data_of(*options_.what, world_.rank(), world_.size(), line.count, options_.root);
  const std::size_t budget = options_.registered ? kMostRegisteredBytes : kMostRingBytes;
  const BufferRing ring(data, element, options_.in_place, options_.warm_buffers ? 1 : kMostSlots,
                        budget / static_cast<std::size_t>(cluster_.ranks_on_host(world_.rank()).size()),
                        [this](std::size_t length) { return allocate(length); });
  const auto slots = static_cast<std::size_t>(-ranks_.largest(-static_cast<double>(ring.slots())));
  check::ExactRows rows = rows_of(options_, world_.size());
  Workload work(data, element, ring, rows, options_.check);
  SinewContestant ours(options_, world_.communicator(), ring, line.count);
  std::unique_ptr<PeerContestant> peer;
  if (peer_ != nullptr) peer = std::make_unique<PeerContestant>(*peer_, options_, line.count, ring);
  ProtocolOptions protocol;
  protocol.iterations = options_.iterations;
  protocol.warmup = options_.warmup;
  protocol.batch_s = options_.batch_s;
  protocol.least_s = options_.least_s;
  protocol.warm_buffers = options_.warm_buffers;
  line.measured = measure(protocol, ranks_, noise_, work, slots, ours, peer.get());
  if (options_.what->exercise == Exercise::Latency) halve(line.measured);
  if (virtual_world_ != nullptr) {
    const Plan plan = plan_of(options_, world_, line.count, place());
    line.links = count_links(*virtual_world_, world_, ranks_, plan, [&] { ours.run(0, 1); });
  }
  return line;
}

void Bench::add_plan(Line& line) {
  const Plan plan = plan_of(options_, world_, line.count, place());
  const Candidate& chosen = plan.chosen();
  line.algorithm = chosen.algorithm;
  line.transport = chosen.transport.empty() ? "none" : chosen.transport;
  line.predicted_s = chosen.predicted;
}

bool Bench::ranks_fit() const {
  for (const std::vector<int>& host : cluster_.groups_by_host()) {
    const auto cores = cluster_.ranks[static_cast<std::size_t>(host.front())].usable_cores;
    if (host.size() > static_cast<std::size_t>(cores)) return false;
  }
  return true;
}

RingMemory Bench::allocate(std::size_t bytes) {
  if (device_) return device_->allocate(bytes, options_.registered ? &world_.communicator() : nullptr);
  if (!options_.registered) return ordinary_memory(bytes);
  auto memory = std::make_shared<Memory>(world_.allocate(bytes));
  return {.data = memory->buffer().data, .hold = memory};
}

}  // namespace sinew::tools
