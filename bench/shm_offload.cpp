// The shared-memory offload alone, between processes of this host: no World, no selection, no handles. Shows what the
// transport itself costs beside the bare exchange of flags (flag_exchange) and a copy of the same bytes.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <sinew/core/base/table.hpp>
#include <sinew/core/host/cpu.hpp>
#include <sinew/core/host/host_peers.hpp>
#include <sinew/core/numeric/reduce.hpp>
#include <sinew/transports/shm/offload/facts.hpp>
#include <sinew/transports/shm/shm.hpp>

#include "command_line.hpp"

namespace {

using namespace sinew;
using Seconds = double;

constexpr int kMostRanks = 64;
constexpr std::size_t kMostBytesEach = 512;

/// Processes that spin: enough for an exchange and for starting batches together.
struct Board {
  std::atomic<std::uint32_t> arrived;
  std::atomic<std::uint32_t> round;
  std::array<std::array<std::byte, kMostBytesEach>, kMostRanks> bytes;
  std::array<std::size_t, kMostRanks> lengths;
  std::array<double, kMostRanks> seconds;
  bool yields;

  void meet(int ranks) {
    const std::uint32_t now = round.load();
    if (arrived.fetch_add(1) + 1 == static_cast<std::uint32_t>(ranks)) {
      arrived.store(0);
      round.store(now + 1);
    } else {
      while (round.load() == now) {
        if (yields) sched_yield();
      }
    }
  }
};

struct Options {
  int ranks = 2;
  std::string collective = "all_reduce";
  bool registered = false;
  bool in_place = false;
  bool warm = false;
  int batches = 21;
  std::vector<std::uint64_t> sizes{8, 1 << 10, 16 << 10, 256 << 10, 4 << 20, 64 << 20};
  shm::Facts facts;
};

class Rank {
 public:
  Rank(const Options& options, Board& board, int rank)
      : options_(options),
        board_(board),
        rank_(rank),
        world_(exchange()),
        host_(world_, "bench", Deadline::after(std::chrono::seconds(30))) {
    fabric_ = shm::module().open({rank, options.ranks, 0, host_, {}});
    group_.rank = rank;
    for (int r = 0; r < options.ranks; ++r) group_.world_ranks.push_back(r);
    offload_ = fabric_->make_offload({group_, world_, encode(options.facts)});
  }

  /// Two ranks: goes on with what they measure.
  void adopt(bool print) {
    const auto begin = std::chrono::steady_clock::now();
    const Bytes facts =
        fabric_->measure({group_, world_, {}}, std::chrono::seconds(2)).value_or(encode(options_.facts));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    offload_ = fabric_->make_offload({group_, world_, facts});
    const shm::Facts f = shm::decode_facts(facts);
    if (!print) return;
    fmt::print("measured in {:.0f} ms, repetitions within {:.0f} %: {}\n", took.count() * 1e3, f.spread * 100,
               shm::to_string(f));
    Table knots({{.name = "bytes", .align = Align::Right}, {.name = "us", .align = Align::Right}});
    for (std::size_t k = 0; k < shm::Facts::kKnots; ++k)
      knots.add({fmt::format("{:.0f}", shm::Facts::kKnotBytes[k]), fmt::format("{:.2f}", f.knot_seconds[k] * 1e6)});
    fmt::print("{}", knots.text());
  }
  /// Slowest rank's seconds per call.
  Seconds measure(std::uint64_t bytes) {
    CollectiveDesc desc{.collective = *collective_from_name(options_.collective), .dtype = DType::F32};
    const auto ranks = static_cast<std::uint64_t>(options_.ranks);
    const bool blocks = desc.collective != Collective::AllReduce && desc.collective != Collective::Broadcast &&
                        desc.collective != Collective::Reduce;
    desc.count =
        desc.collective == Collective::Barrier ? 0 : std::max<std::uint64_t>(1, bytes / 4 / (blocks ? ranks : 1));
    const std::uint64_t room = (desc.count * 4 * (blocks ? ranks : 1) + 127) / 64 * 64;
    const Seconds guess = 0.3e-6 + static_cast<double>(bytes) / 4e9;
    const auto calls = std::clamp<std::uint64_t>(static_cast<std::uint64_t>(200e-6 / guess), 1, 400);
    const Memory in(*this, room * calls);
    const Memory out(*this, room * calls);
    std::vector<Seconds> seconds;
    for (int b = -2; b < options_.batches; ++b) {
      for (std::uint64_t i = 0; i < room * calls / 4 && !(options_.warm && b > -2); ++i) {
        reinterpret_cast<float*>(in.data)[i] = 1.0f;
        sink_ = sink_ + reinterpret_cast<volatile float*>(out.data)[i];
      }
      board_.meet(options_.ranks);
      const Seconds mine = batch(desc, in.data, options_.in_place ? in.data : out.data, room, calls);
      board_.seconds[static_cast<std::size_t>(rank_)] = mine;
      board_.meet(options_.ranks);
      const Seconds slowest = *std::max_element(board_.seconds.begin(), board_.seconds.begin() + options_.ranks);
      if (b >= 0) seconds.push_back(slowest);
      board_.meet(options_.ranks);
    }
    std::ranges::sort(seconds);
    best_ = seconds.front();
    return seconds[seconds.size() / 2];
  }
  Seconds best() const { return best_; }

  /// One way of a message between ranks 0 and 1; the others wait.
  Seconds ping_pong(std::uint64_t bytes) {
    Transport& rail = *fabric_->transports()[0];
    const std::vector<Bytes> addresses = world_.all_gather(rail.address());
    std::vector<Seconds> seconds;
    if (rank_ < 2) {
      if (!endpoint_) endpoint_ = rail.connect(addresses[static_cast<std::size_t>(1 - rank_)]);
      const Memory from(*this, bytes);
      const Memory to(*this, bytes);
      const int turns = bytes <= 4096 ? 200 : bytes <= (1 << 20) ? 10 : 2;
      for (int b = -2; b < options_.batches; ++b) {
        const auto begin = std::chrono::steady_clock::now();
        for (int i = 0; i < turns; ++i) {
          if (rank_ == 0) transfer(rail, true, from.data, bytes);
          transfer(rail, false, to.data, bytes);
          if (rank_ == 1) transfer(rail, true, from.data, bytes);
        }
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
        if (b >= 0) seconds.push_back(took.count() / turns / 2);
      }
      std::ranges::sort(seconds);
      best_ = seconds.front();
    }
    board_.meet(options_.ranks);
    return seconds.empty() ? 0 : seconds[seconds.size() / 2];
  }

 private:
  struct Memory {
    Memory(Rank& rank, std::size_t bytes) {
      if (rank.options_.registered) {
        region = *rank.fabric_->allocate(bytes, false);
        data = region.memory.data;
      } else {
        own.reset(static_cast<std::byte*>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096)));
        data = own.get();
      }
      std::memset(data, 0, bytes);
    }
    struct Free {
      void operator()(std::byte* p) const { std::free(p); }
    };
    std::byte* data;
    std::unique_ptr<std::byte, Free> own;
    Region region;
  };
  struct Fired : Completion {
    bool fired = false;
    Fired() : Completion([](Completion& c) noexcept { static_cast<Fired&>(c).fired = true; }) {}
  };

  Exchange exchange() {
    return {rank_, options_.ranks, [this](const Bytes& mine) {
              const auto r = static_cast<std::size_t>(rank_);
              if (mine.size() > kMostBytesEach) std::abort();
              std::memcpy(board_.bytes[r].data(), mine.data(), mine.size());
              board_.lengths[r] = mine.size();
              board_.meet(options_.ranks);
              std::vector<Bytes> all;
              for (std::size_t i = 0; i < static_cast<std::size_t>(options_.ranks); ++i)
                all.emplace_back(board_.bytes[i].begin(),
                                 board_.bytes[i].begin() + static_cast<std::ptrdiff_t>(board_.lengths[i]));
              board_.meet(options_.ranks);
              return all;
            }};
  }

  Seconds batch(const CollectiveDesc& desc, std::byte* in, std::byte* out, std::uint64_t room, std::uint64_t calls) {
    const Reducer reducer = reducer_for(ReduceOp::Sum, DType::F32);
    const ManyReducer many = many_reducer_for(ReduceOp::Sum, DType::F32);
    const auto begin = std::chrono::steady_clock::now();
    for (std::uint64_t i = 0; i < calls; ++i) {
      Call call{.desc = desc, .in = {in + i * room, room}, .out = {out + i * room, room}};
      call.fingerprint = fingerprint_of(desc);
      call.reducer = reducer;
      call.many = many;
      Fired done;
      offload_->launch(call, done);
      while (!done.fired) {
        if (offload_->progress() == 0 && board_.yields) sched_yield();
      }
      if (!done.status.ok()) std::abort();
    }
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / static_cast<double>(calls);
  }

  void transfer(Transport& rail, bool send, std::byte* data, std::uint64_t bytes) {
    Fired done;
    if (send) {
      endpoint_->send({data, bytes}, Tag::user(0, 1, 0), 0, done);
    } else {
      endpoint_->recv({{data, bytes}}, Tag::user(0, 1, 0), done);
    }
    while (!done.fired) {
      if (rail.progress() == 0 && board_.yields) sched_yield();
    }
  }

  const Options& options_;
  Board& board_;
  int rank_;
  Exchange world_;
  HostPeers host_;
  std::unique_ptr<Fabric> fabric_;
  Group group_;
  std::unique_ptr<CollectiveOffload> offload_;
  std::unique_ptr<Endpoint> endpoint_;
  Seconds best_ = 0;
  float sink_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  bench::CommandLine command("Measures the shared-memory offload between processes of this host.");
  Options options;
  command.option("-n,--ranks", options.ranks, "processes", {.least = 2, .most = kMostRanks});
  command.word("-c,--collective", options.collective, "what to measure",
               {"all_reduce", "all_gather", "all_to_all", "broadcast", "gather", "ping_pong", "reduce",
                "reduce_scatter", "scatter"});
  command.sizes("-s,--sizes", options.sizes, "bytes of the larger buffer");
  command.option("--batches", options.batches, "batches; the median is printed", bench::kPositive);
  command.flag("--registered", options.registered, "memory that peers can read without copies");
  command.flag("--in-place", options.in_place, "one buffer for both");
  command.flag("--warm", options.warm, "do not touch the buffers between batches");
  bool measured = false;
  command.flag("--measured", measured, "choose by a measurement first, and show what it found");
  std::uint64_t slots = options.facts.slot_bytes[0];
  std::uint64_t chunk = options.facts.chunk_bytes[0];
  shm::Lengths in_place;
  command.option("--slot-bytes", slots, "bytes up to which a call goes through slots");
  command.option("--stream-from", options.facts.stream_from_bytes, "bytes from which copies go past the caches");
  command.option("--chunk-bytes", chunk, "bytes of a chunk");
  command.option("--string-from", options.facts.string_from_bytes, "bytes from which other copies are the string's");
  command.option("--demoted", options.facts.demoted_bytes, "bytes up to which what is shown goes to the shared cache");
  command.option("--direct-from", in_place.from, "bytes from which memory is read where it lies");
  command.option("--direct-to", in_place.to, "bytes up to which it is");
  command.option("--tree-from", options.facts.tree_from_ranks, "ranks from which short calls take a tree");
  command.option("--tree-chunks-from", options.facts.tree_chunks_from_bytes,
                 "with it, bytes from which longer calls take a tree in chunks");
  command.parse(argc, argv);
  options.facts.slot_bytes.fill(slots);
  options.facts.chunk_bytes.fill(chunk);
  options.facts.read_in_place.fill(in_place);

  void* memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return EXIT_FAILURE;
  auto* board = new (memory) Board{};
  board->yields = options.ranks > usable_cores();
  int rank = 0;
  for (int r = 1; r < options.ranks && rank == 0; ++r) {
    if (fork() == 0) rank = r;
  }
  {
    Rank self(options, *board, rank);
    if (measured) self.adopt(rank == 0);
    const Table table({{.name = "bytes", .align = Align::Right, .width = 10},
                       {.name = "us", .align = Align::Right, .width = 12},
                       {.name = "best us", .align = Align::Right, .width = 12},
                       {.name = "GB/s", .align = Align::Right, .width = 6}});
    if (rank == 0) fmt::print("{}", table.heading());
    for (const std::uint64_t bytes : options.sizes) {
      const Seconds median = options.collective == "ping_pong" ? self.ping_pong(bytes) : self.measure(bytes);
      if (rank == 0)
        fmt::print("{}", table.row({std::to_string(bytes), fmt::format("{:.2f}", median * 1e6),
                                    fmt::format("{:.2f}", self.best() * 1e6),
                                    fmt::format("{:.2f}", static_cast<double>(bytes) / median / 1e9)}));
    }
    board->meet(options.ranks);
  }
  if (rank != 0) _exit(0);
  while (wait(nullptr) > 0) {
  }
}
