#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sinew/collectives/algorithms/algorithm.hpp>
#include <sinew/collectives/selection/measured_curve.hpp>
#include <sinew/collectives/selection/selector.hpp>
#include <sinew/collectives/world/measured_link.hpp>
#include <sinew/core/completion.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/host/cpu.hpp>

namespace sinew {
namespace {

/// Messages to measure, ascending: knots of the curve after the first, and batches of calls to take the fastest of.
struct Sample {
  std::size_t bytes;
  int batches;
};
constexpr Sample kSamples[] = {{8, 24},        {256, 12},    {4 << 10 /* not a page */, 12},
                               {64 << 10, 16}, {1 << 20, 6}, {8 << 20, 3}};
/// Of one batch: enough calls for the clock and for ranks that start unevenly, on memory that is new to each.
constexpr std::size_t kBatchBytes = 128 << 10;
constexpr std::size_t kMostCalls = 64;
/// The bytes of memory of each rank through which batches of longer messages go, one batch behind the other. If each
/// batch used the same buffers, the buffers would stay in a core's cache, and a message of 64 KiB would seem to take
/// half of the time that a program sees.
constexpr std::size_t kTurnBytes = 4 << 20;
constexpr std::size_t kTurnsFrom = 4 << 10;  // not a page
/// For the endpoints of a rank that does not answer to give back what was posted; longer only if it stopped at reading.
constexpr auto kClosing = std::chrono::seconds(1);
/// The overhead of a message is measured with so many messages in flight at the same time.
constexpr std::size_t kBurst = 8;
/// Of the budget, that no batch of short messages takes more over a long way.
constexpr int kBatches = 50;
/// Of one message, to know how long the way is: the first few find the other rank asleep.
constexpr int kFirstRuns = 20;

struct Posted : Completion {
  bool done = false;
  Posted() noexcept : Completion([](Completion& c) noexcept { static_cast<Posted&>(c).done = true; }) {}
};

/// A completion must fire before it ends: what is posted comes back before this throws Timeout naming the peer.
void wait_for(std::span<const Posted> all, WorldState& world, int peer) {
  const auto back = [&] { return std::ranges::all_of(all, &Posted::done); };
  // Half of the configured timeout: the others wait in the exchange, and should still hear of it.
  const Duration patience = world.options.config.timeout / 2;
  if (!world.engine->wait(back, {}, patience)) {
    const Status late(Code::Timeout,
                      fmt::format("rank {} did not answer within {} ms", peer,
                                  std::chrono::duration_cast<std::chrono::milliseconds>(patience).count()),
                      peer);
    world.executor.abort(0, late);  // nothing but this runs yet; and its messages know the endpoints
    world.close_endpoints(peer);
    if (!world.engine->wait(back, Deadline::after(kClosing), {})) {
      world.end_endpoints(peer);
      world.engine->wait(back, Deadline::never(), {});
    }
    late.require();
  }
  for (const Posted& posted : all) posted.status.require();
}
void wait_for(const Posted& posted, WorldState& world, int peer) { wait_for({&posted, 1}, world, peer); }

/// Messages between this rank and another over one transport, one at a time.
class PeerLink {
 public:
  PeerLink(WorldState& world, int peer, const std::string& transport)
      : world_(world), peer_(peer), endpoint_(world.endpoint(peer, transport)) {}

  void send(ConstBuffer from) {
    Posted posted;
    endpoint_.send(from, tag(), 0, posted);
    wait_for(posted, world_, peer_);
  }
  void recv(Buffer to) {
    Posted posted;
    endpoint_.recv({to, nullptr, {}}, tag(), posted);
    wait_for(posted, world_, peer_);
  }

 private:
  Tag tag() const { return Tag::user(world_.tag_generation(), 1, 0); }

  WorldState& world_;
  int peer_;
  Endpoint& endpoint_;
};

/// One round of a schedule as the executor runs it: two ranks send each other a message at the same time. The sender of
/// a call has just written its memory, and the message lands in other memory, as in a training step.
class Rounds {
 public:
  /// Each batch has at most `most_calls` calls, `at_once` of them in flight at a time.
  Rounds(WorldState& world, int peer, const std::string& transport, std::size_t bytes, std::size_t most_calls,
         std::size_t at_once = 1)
      : at_once_(at_once),
        world_(world),
        peer_(peer),
        link_(world, peer, transport),
        rank_(world.rank < peer ? 0 : 1),
        bytes_(bytes),
        calls_(std::max(std::clamp<std::size_t>(kBatchBytes / bytes, 1, most_calls) / at_once, std::size_t{1}) *
               at_once),
        places_(bytes < kTurnsFrom ? calls_ : std::max(calls_, kTurnBytes / stride())),
        memory_(places_ * stride()) {
    // The smallest messages are combined as well: that step costs about as much as they do.
    const CollectiveDesc desc{
        .collective = combines() ? Collective::AllReduce : Collective::AllGather, .dtype = DType::U8, .count = bytes};
    const Algorithm& exchange = *find_algorithm(desc.collective, "direct");
    round_ = Executable::make(desc, build_program(exchange, desc, rank_, 2, true), kSegmentation,
                              [&](int) { return &world.endpoint(peer, transport); });
    fingerprint_ = fingerprint_of(desc);
  }
  ~Rounds() { world_.executor.forget(*round_); }
  Rounds(const Rounds&) = delete;
  Rounds& operator=(const Rounds&) = delete;

  /// One batch more. What others take of the machine while it runs is not the link's: fastest() is that of the best.
  void run() {
    for (std::size_t c = 0; c < calls_; ++c) std::fill_n(in_of(c), bytes_, std::byte{1});
    meet(false);
    fastest_ = std::min(fastest_, batch());
    first_ = (first_ + calls_) % places_;
  }
  std::size_t bytes() const noexcept { return bytes_; }
  Seconds fastest() const noexcept { return fastest_; }
  /// Is the time up for either?
  bool over(Deadline stop) { return meet(stop.passed()); }
  /// Would something that takes so long end after the time is up for either?
  bool ends_after(Deadline stop, Seconds takes) {
    return meet(takes > std::chrono::duration<Seconds>(stop.at() - Clock::now()).count());
  }
  /// How many of these calls fit into a time; the same number for both.
  std::size_t calls_for(Duration time) {
    auto calls = static_cast<std::uint64_t>(std::chrono::duration<Seconds>(time).count() / fastest_);
    const Buffer number{reinterpret_cast<std::byte*>(&calls), sizeof calls};
    rank_ == 0 ? link_.send(number) : link_.recv(number);
    return std::clamp<std::size_t>(calls, 1, kMostCalls);
  }

 private:
  bool combines() const { return bytes_ <= kSamples[1].bytes; }
  std::size_t stride() const { return (2 * bytes_ + kFalseSharing - 1) / kFalseSharing * kFalseSharing; }
  std::byte* out_of(std::size_t call) { return memory_.data() + (first_ + call) % places_ * stride(); }
  std::byte* in_of(std::size_t call) { return out_of(call) + static_cast<std::size_t>(rank_) * bytes_; }

  Seconds batch() {
    const auto start = Clock::now();
    std::array<Posted, kBurst> done;
    for (std::size_t i = 0; i < calls_; i += at_once_) {
      for (std::size_t k = 0; k < at_once_; ++k) {
        done[k].done = false;
        world_.executor.start({.executable = round_.get(),
                               .in = {in_of(i + k), bytes_},
                               .out = combines() ? Buffer{in_of(i + k), bytes_} : Buffer{out_of(i + k), 2 * bytes_},
                               .history = fingerprint_,
                               .generation = world_.tag_generation(),
                               .sequence = static_cast<std::uint16_t>(k)},
                              done[k]);
      }
      wait_for(std::span(done).first(at_once_), world_, peer_);
    }
    return std::chrono::duration<Seconds>(Clock::now() - start).count() / static_cast<double>(calls_);
  }
  /// Both have written. Is either's time up?
  bool meet(bool up) {
    auto said = static_cast<std::byte>(up);
    if (rank_ == 0) link_.send({&said, 1});
    link_.recv({&said, 1});
    said |= static_cast<std::byte>(up);
    if (rank_ == 1) link_.send({&said, 1});
    return said != std::byte{};
  }

  std::size_t at_once_;
  WorldState& world_;
  int peer_;
  PeerLink link_;
  int rank_;
  std::size_t bytes_;
  std::size_t calls_;
  std::size_t places_;     // the number of calls that memory_ has room for
  std::size_t first_ = 0;  // the index of the place that the next batch's first call uses
  std::vector<std::byte> memory_;
  std::unique_ptr<Executable> round_;
  Fingerprint fingerprint_ = 0;
  Seconds fastest_ = std::numeric_limits<Seconds>::max();
};

}  // namespace

Exchange exchange_with(WorldState& world, int peer, const std::string& transport) {
  auto link = std::make_shared<PeerLink>(world, peer, transport);
  const int mine = world.rank < peer ? 0 : 1;
  return {mine, 2, [link, mine](const Bytes& bytes) {
            std::vector<Bytes> both(2);
            both[static_cast<std::size_t>(mine)] = bytes;
            std::uint64_t length = bytes.size();
            const auto give = [&] {
              link->send({reinterpret_cast<const std::byte*>(&length), sizeof length});
              link->send({bytes.data(), bytes.size()});
            };
            if (mine == 0) give();
            std::uint64_t theirs = 0;
            link->recv({reinterpret_cast<std::byte*>(&theirs), sizeof theirs});
            Bytes& other = both[static_cast<std::size_t>(1 - mine)];
            other.resize(theirs);
            link->recv({other.data(), other.size()});
            if (mine == 1) give();
            return both;
          }};
}

MeasuredCurve measured_curve(WorldState& world, int peer, const std::string& transport, Duration budget) {
  std::deque<Rounds> all;
  Rounds first(world, peer, transport, kSamples[0].bytes, 1);
  first.run();  // connections
  const Deadline warm = Deadline::after(budget / 4);
  for (int run = 0; run < kFirstRuns && !first.over(warm); ++run) first.run();
  const Deadline stop = Deadline::after(budget);
  const std::size_t most_calls = first.calls_for(budget / kBatches);
  const auto sizes = [&] {
    std::vector<MeasuredSize> measured;
    for (const Rounds& r : all) measured.push_back({static_cast<double>(r.bytes()), r.fastest()});
    return measured;
  };
  for (const Sample& s : kSamples) {  // once before they count: pages
    if (!all.empty() && all.back().ends_after(stop, likely_seconds(sizes(), static_cast<double>(s.bytes)))) break;
    all.emplace_back(world, peer, transport, s.bytes, most_calls).run();
  }
  Rounds burst(world, peer, transport, kSamples[0].bytes, most_calls, kBurst);
  burst.run();
  const int turns = std::ranges::max(kSamples, {}, &Sample::batches).batches;
  int turn = 0;
  while (turn < turns && !all.front().over(stop)) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (turn < kSamples[i].batches) all[i].run();
    }
    burst.run();
    ++turn;
  }
  const Seconds one_more = (kBurst * burst.fastest() - all.front().fastest()) / (kBurst - 1);
  return {.curve = curve_of(sizes(), one_more, world.facts.reach(world.rank, peer, transport).cost),
          .is_first_only = turn == 0,
          .in_time = turn == turns && all.size() == std::size(kSamples)};
}

}  // namespace sinew
