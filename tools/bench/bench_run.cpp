#include "bench_run.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>
#include <random>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/collectives/algorithm.hpp>
#include <sinew/collectives/world.hpp>
#include <sinew/core/cpu.hpp>
#include <sinew/topology/cluster.hpp>
#include <sinew/transports/registry.hpp>

#include "../command_line.hpp"
#include "enough_memory.hpp"
#include "line.hpp"
#include "peer_contestant.hpp"
#include "progress.hpp"
#include "sinew_contestant.hpp"
#include "sweep.hpp"

namespace sinew::tools {
namespace {

constexpr std::size_t kMostSlots = 4096;  // not a page: calls in a batch
constexpr std::size_t kMostRingBytes = 256u << 20;
constexpr std::size_t kMostRegisteredBytes = 128u << 20;
constexpr std::size_t kSecretBytes = 32;

/// The data of a run, and how right its results must be.
check::ExactRows rows_of(const BenchOptions& options, int ranks) {
  const bool sums = reduces(options.what->collective);
  if (options.codec == Codec::None) return {options.dtype, options.op, sums, ranks};
  const int codings = !sums ? 1 : options.what->collective == Collective::AllReduce ? ranks : ranks - 1;
  return {options.codec, codings, options.op, sums, ranks};
}

/// The world's ranks agreeing over a communicator of their own.
class WorldRanks : public Ranks {
 public:
  explicit WorldRanks(Communicator& all) : communicator_(all.split(0)) {}
  int rank() const noexcept override { return communicator_.rank(); }
  int size() const noexcept override { return communicator_.size(); }
  void meet() override { communicator_.barrier().get(); }
  std::vector<double> gather(std::span<const double> mine) override {
    std::vector<double> all(mine.size() * static_cast<std::size_t>(size()));
    communicator_.all_gather(mine, all).get();
    return all;
  }
  Exchange exchange() {
    return {rank(), size(), [this](const Bytes& mine) { return gather_bytes(mine); }};
  }

 private:
  std::vector<Bytes> gather_bytes(const Bytes& mine) {
    const double length = static_cast<double>(mine.size());
    const std::vector<double> lengths = gather({&length, 1});
    const auto longest = static_cast<std::size_t>(std::ranges::max(lengths));
    std::vector<std::uint8_t> padded(longest);
    std::transform(mine.begin(), mine.end(), padded.begin(),
                   [](std::byte b) { return std::to_integer<std::uint8_t>(b); });
    std::vector<std::uint8_t> all(longest * lengths.size());
    communicator_.all_gather(padded, all).get();
    std::vector<Bytes> result;
    for (std::size_t r = 0; r < lengths.size(); ++r) {
      const auto* first = reinterpret_cast<const std::byte*>(all.data()) + r * longest;
      result.emplace_back(first, first + static_cast<std::size_t>(lengths[r]));
    }
    return result;
  }

  Communicator communicator_;
};

WorldOptions world_options(const BenchOptions& options) {
  WorldOptions world;
  if (!options.transports.empty()) world.config.transports = options.transports;
  if (!options.algorithm.empty()) {
    world.config.tune = {fmt::format("{}:0-:{}", name_of(options.what->collective), options.algorithm)};
  }
  return world;
}

/// With a peer the ranks are the peer's, and they meet over it; a secret goes the same way.
World make_world(const BenchOptions& options, const LoadedPeer* peer) {
  WorldOptions world = world_options(options);
  if (peer == nullptr) return World::from_environment(std::move(world));
  const Exchange exchange = peer->exchange();
  Bytes secret(kSecretBytes);
  std::random_device device;
  std::ranges::generate(secret, [&] { return static_cast<std::byte>(device()); });
  world.secret = exchange.all_gather(exchange.rank == 0 ? secret : Bytes{}).front();
  return World::create(exchange, std::move(world));
}

/// The plan of a size, where there is one.
void add_plan(const BenchOptions& options, World& world, Line& line) {
  const std::vector<std::uint64_t> counts = skewed_counts(*options.what, world.rank(), world.size(), line.count);
  const Plan plan = world.communicator().plan(desc_of(options, line.count, counts, world.size()));
  const Candidate& chosen = plan.chosen();
  line.algorithm = chosen.algorithm;
  line.transport = chosen.transport.empty() ? "none" : chosen.transport;
  line.predicted_s = chosen.predicted;
}

UsageError unknown_algorithm(const BenchOptions& options) {
  std::set<std::string_view> known;
  for (const Algorithm& a : all_algorithms()) {
    if (a.collective == options.what->collective) known.insert(a.name);
  }
  return UsageError(fmt::format("--algorithm: '{}': expected {} or the name of an offload that is open, for {}",
                                options.algorithm, fmt::join(known, ", "), options.what->name));
}

/// A name that nobody has. Offloads have the names of their transports.
void require_known_algorithm(const BenchOptions& options) {
  if (options.algorithm.empty() || find_algorithm(options.what->collective, options.algorithm) != nullptr) return;
  const auto transports = module_names(Config::from_environment());
  if (std::ranges::find(transports, options.algorithm) == transports.end()) throw unknown_algorithm(options);
}

/// Says what is wrong with --algorithm before a plan lists everything that the rule made of it leaves out.
void require_algorithm(const BenchOptions& options, World& world) {
  if (options.algorithm.empty()) return;
  const std::vector<std::uint64_t> counts = skewed_counts(*options.what, world.rank(), world.size(), 1);
  const CollectiveDesc desc = desc_of(options, 1, counts, world.size());
  if (const Algorithm* found = find_algorithm(desc.collective, options.algorithm)) {
    const Availability can = found->supports(desc, world.size());
    if (!can.ok) throw UsageError(fmt::format("--algorithm: '{}' {}", options.algorithm, can.reason));
    return;
  }
  try {
    (void)world.communicator().plan(desc);  // an offload of that name takes the call
  } catch (const Error&) {
    throw unknown_algorithm(options);
  }
}

class Bench {
 public:
  Bench(const BenchOptions& options, World& world, const LoadedPeer* peer)
      : options_(options),
        world_(world),
        peer_(peer),
        ranks_(world.communicator()),
        cluster_(gather_cluster(ranks_.exchange(), Config::from_environment())),
        noise_(ranks_, cluster_.ranks_on_host(world.rank()), ranks_fit()) {
    facts_ = {world.size(), static_cast<int>(cluster_.hosts.size()), peer == nullptr ? "" : peer->functions().name()};
  }

  const RunFacts& facts() const noexcept { return facts_; }

  /// Errors: UsageError on all ranks where a host has too little memory for the longest buffers.
  void require_memory() {
    const BenchCase& what = *options_.what;
    const std::uint64_t count = options_.max_bytes / unit_bytes(what, options_.dtype, world_.size());
    std::uint64_t elements = 0;
    for (const int r : cluster_.ranks_on_host(world_.rank())) {
      const RankData data = data_of(what, r, world_.size(), count);
      elements += data.in_elements + data.out_elements;
    }
    const std::string lack = lack_of_memory(elements * size_of(options_.dtype), available_memory());
    if (ranks_.largest(lack.empty() ? 0 : 1) == 0) return;
    throw UsageError(fmt::format("-e {}: {}", format_bytes(options_.max_bytes),
                                 lack.empty() ? "another host has too little memory for it" : lack));
  }

  Line measure_size(std::uint64_t bytes) {
    const std::size_t element = size_of(options_.dtype);
    Line line;
    line.bytes = bytes;
    line.count = bytes / unit_bytes(*options_.what, options_.dtype, world_.size());
    add_plan(options_, world_, line);
    const RankData data = data_of(*options_.what, world_.rank(), world_.size(), line.count);
    const std::size_t budget = options_.registered ? kMostRegisteredBytes : kMostRingBytes;
    const BufferRing ring(data, element, options_.in_place, options_.warm_buffers ? 1 : kMostSlots,
                          budget / static_cast<std::size_t>(cluster_.ranks_on_host(world_.rank()).size()), allocator());
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
    protocol.warm_buffers = options_.warm_buffers;
    line.measured = measure(protocol, ranks_, noise_, work, slots, ours, peer.get());
    if (options_.what->exercise == Exercise::Latency) halve(line.measured);
    return line;
  }

 private:
  /// A latency is one way; a call went there and back.
  static void halve(Measurement& m) {
    m.ours.seconds /= 2;
    m.ours.p99_seconds /= 2;
    if (m.peer) m.peer->seconds /= 2;
  }

  bool ranks_fit() const {
    for (const std::vector<int>& host : cluster_.groups_by_host()) {
      const auto cores = cluster_.ranks[static_cast<std::size_t>(host.front())].usable_cores;
      if (host.size() > static_cast<std::size_t>(cores)) return false;
    }
    return true;
  }

  RingAllocator allocator() {
    if (!options_.registered) return ordinary_memory;
    return [this](std::size_t bytes) {
      auto memory = std::make_shared<Memory>(world_.allocate(bytes));
      return RingMemory{memory->buffer().data, memory};
    };
  }

  const BenchOptions& options_;
  World& world_;
  const LoadedPeer* peer_;
  WorldRanks ranks_;
  Cluster cluster_;
  NoiseGauge noise_;
  RunFacts facts_;
};

/// 0 if it is none, or not positive.
int number_in(std::string_view text) noexcept {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() ? std::max(value, 0) : 0;
}

/// Where rank 0 writes; the other ranks write nowhere.
class Output {
 public:
  Output(const BenchOptions& options, bool speaks)
      : name_(options.json), table_(speaks && options.json != "-"), json_(speaks && !options.json.empty()) {
    if (!json_ || options.json == "-") return;
    file_.open(options.json);
    if (!file_)
      throw Error(Code::InvalidArgument,
                  fmt::format("--json: '{}': expected a file that can be written", options.json));
  }
  void table(const std::string& text) {
    if (table_) std::cout << text << std::flush;
  }
  void json(const std::string& text) {
    if (json_) (file_.is_open() ? static_cast<std::ostream&>(file_) : std::cout) << text << std::endl;
  }
  /// Errors: Error{System} if the file is not all there; standard output is looked at when the program ends.
  void finish() {
    if (!file_.is_open()) return;
    errno = 0;
    file_.close();
    if (file_) return;
    throw Error(Code::System, fmt::format("--json: '{}': {}; lines are lost", name_,
                                          errno != 0 ? std::strerror(errno) : "a write failed"));
  }

 private:
  std::string name_;
  bool table_;
  bool json_;
  std::ofstream file_;
};

}  // namespace

bool another_rank_speaks() noexcept {
  for (const char* name : {"RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    const char* text = std::getenv(name);
    if (text == nullptr) continue;
    const char* size = std::getenv("WORLD_SIZE");
    const bool outside = std::string_view(name) == "RANK" && (size == nullptr || number_in(text) >= number_in(size));
    return number_in(text) > 0 && !outside;
  }
  return false;
}

int run_bench(const BenchOptions& options) {
  require_known_algorithm(options);
  const auto peer = options.peer.empty() ? nullptr : std::make_unique<LoadedPeer>();
  World world = make_world(options, peer.get());
  if (world.size() < options.what->least_ranks) {
    throw UsageError(fmt::format("{}: expected at least {} ranks, found {}; start them with sinew-run or mpirun",
                                 options.what->name, options.what->least_ranks, world.size()));
  }
  require_algorithm(options, world);
  if (peer)
    PeerContestant::require(*peer, options, options.max_bytes / unit_bytes(*options.what, options.dtype, world.size()));
  Output output(options, world.rank() == 0);
  Bench bench(options, world, peer.get());
  std::vector<std::uint64_t> sizes{0};
  if (options.what->exercise != Exercise::Barrier) {
    sizes = sweep(options.min_bytes, options.max_bytes, options.factor,
                  unit_bytes(*options.what, options.dtype, world.size()));
  }
  bench.require_memory();
  output.table(table_header(options, bench.facts()));
  Totals totals;
  Progress progress(world.rank() == 0 ? sizes.size() : 0);
  for (std::size_t s = 0; s < sizes.size(); ++s) {
    if (world.rank() == 0) progress.show(s, format_bytes(sizes[s]));
    const Line line = bench.measure_size(sizes[s]);
    progress.clear();
    totals.add(options, bench.facts(), line);
    output.table(table_row(options, bench.facts(), line));
    output.json(to_json(options, bench.facts(), line));
  }
  output.table(table_footer(bench.facts(), totals));
  output.finish();
  return totals.wrong + totals.peer_wrong == 0 ? 0 : 1;
}

}  // namespace sinew::tools
