#include <sched.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sinew/core/host/cpu.hpp>
#include <sinew/core/host/run_queue_delay.hpp>
#include <sinew/transports/shm/measure.hpp>
#include <sinew/transports/shm/offload/offload.hpp>
#include <sinew/transports/shm/transport.hpp>

namespace sinew::shm {
namespace {

constexpr std::uint64_t kMostBytes = 8 << 20;  // of each buffer
constexpr std::uint64_t kBatchBytes = 128 << 10;
/// Short batches take turns in so many bytes of each buffer. Both buffers together are more than a core's cache holds.
constexpr std::uint64_t kThrough = 4 << 20;
constexpr std::uint64_t kMostCalls = 64;
constexpr std::uint64_t kLeastSlot = 4 << 10;  // not a page
/// Another way must be that much faster to be preferred to the default.
constexpr double kClearly = 0.95;
/// Two ways of running a call are compared in this many rounds. Each round times batches of the one, then of the other.
constexpr int kTurns = 3;
/// A measurement is repeated if other processes kept a rank from its core for more than this share of the time. Ways
/// in which the ranks wait less for each other lose less by that, so they look faster than they are.
constexpr double kDisturbedShare = 0.1;

struct Fired : Completion {
  bool fired = false;
  Fired() : Completion([](Completion& c) noexcept { static_cast<Fired&>(c).fired = true; }) {}
};

class Measurement {
 public:
  Measurement(HostPeers& host, GroupStates& group_states, ShmTransport& messages, const OffloadContext& pair,
              Duration budget, Duration patience)
      : host_(host),
        rank_(pair.group.rank),
        peer_(pair.group.world_ranks[static_cast<std::size_t>(1 - pair.group.rank)]),
        offload_(host, group_states, pair),
        messages_(messages),
        endpoint_(messages.endpoint_to(peer_)),
        yields_(host.usable_cores() < 2),
        stop_at_(Clock::now() + budget),
        patience_(patience),
        in_(kMostBytes / sizeof(float)),
        out_(kMostBytes / sizeof(float)) {}

  /// Repeats the measurement until one is not disturbed by other processes. If the budget ends before that, returns the
  /// last complete one, with Facts::disturbed. Returns nullopt if none is complete.
  std::optional<Facts> choose() {
    std::optional<Facts> found;
    while (true) {
      best_ = {};
      const Clock::time_point began = Clock::now();
      const Displacement before = delay_.read();
      try_all();
      if (!in_time_) return found;
      const Duration took = Clock::now() - began;
      const double took_s = std::chrono::duration<double>(took).count();
      const bool disturbed = !yields_ && displaced(before, delay_.read(), took_s, kDisturbedShare);
      best_.disturbed = agree(disturbed ? 1 : 0) == 0 ? 0 : 1;
      found = best_;
      if (best_.disturbed == 0) return found;
      const bool time_for_another = Clock::now() + took <= stop_at_;
      if (agree(time_for_another ? 0 : 1) != 0) return found;
    }
  }

 private:
  void try_all() {
    spreads_.clear();
    time(best_, 1 << 20, Collective::AllReduce, 1);  // not measured: the kernel maps the shared pages in it
    choose_copies();
    for (const Collective c : {Collective::Broadcast, Collective::AllReduce, Collective::ReduceScatter,
                               Collective::AllGather, Collective::AllToAll}) {
      choose_chunks(c);
      if (c != Collective::Broadcast) choose_slots(c);
    }
    if (offload_.reads_ordinary_memory()) {
      choose_direct();
      choose_exchanges(Collective::AllGather);
      choose_exchanges(Collective::AllToAll);
    }
    if (agree(endpoint_ == nullptr ? 1 : 0) == 0) choose_messages();
    time_knots();
    time_apart();
    if (spreads_.empty()) return;
    std::ranges::nth_element(spreads_, spreads_.begin() + std::ssize(spreads_) / 2);
    best_.spread = agree(spreads_[spreads_.size() / 2]);
  }
  static int batches_of(std::uint64_t bytes, Collective collective) noexcept {
    const int few = collective == Collective::AllReduce ? 2 : 4;
    return bytes <= 16 << 10 ? 20 : bytes <= 256 << 10 ? 8 : bytes <= 1 << 20 ? 5 : few;
  }
  /// Times batches of calls that both ranks start together. A batch goes through memory that its owner has just
  /// written, `stride` bytes for each call. The next batch goes through other memory, as the calls of a program do. If
  /// the memory were in a core's cache already, reading in place would look faster than it is. `call` makes the call
  /// whose memory begins at this index of in_ and out_.
  /// Returns the seconds per call of the fastest batch, on the slower rank. 0: the time is up, for both ranks.
  template <class Call>
  Seconds fastest_batch(int batches, std::uint64_t stride, Call call, std::uint64_t least_calls = 1) {
    const std::uint64_t calls = std::clamp<std::uint64_t>(kBatchBytes / stride, least_calls, kMostCalls);
    const std::uint64_t span = calls * stride;
    double best = std::numeric_limits<double>::max();
    for (int i = 0; i < batches; ++i) {
      const std::uint64_t first = next_ + span <= kThrough ? next_ : 0;
      next_ = first + span;
      std::fill_n(in_.begin() + static_cast<std::ptrdiff_t>(first / sizeof(float)), span / sizeof(float), 1.0f);
      in_time_ = agree(Clock::now() >= stop_at_ ? 1 : 0) == 0;
      if (!in_time_) return 0;
      const auto begin = Clock::now();
      for (std::uint64_t c = 0; c < calls; ++c) call((first + c * stride) / sizeof(float));
      const std::chrono::duration<double> took = Clock::now() - begin;
      best = std::min(best, took.count() / static_cast<double>(calls));
    }
    return agree(best);
  }
  Seconds time(const Facts& facts, std::uint64_t bytes, Collective collective, int batches,
               std::uint64_t least_calls = 1) {
    const std::uint64_t given = bytes * blocks_of(collective, 2).in;
    const std::uint64_t stride = (given + kFalseSharing - 1) / kFalseSharing * kFalseSharing;
    offload_.use(facts);
    return fastest_batch(
        batches, stride,
        [&](std::uint64_t at) {
          run(collective, DType::F32, ReduceOp::Sum, in_.data() + at, out_.data() + at, bytes / sizeof(float));
        },
        least_calls);
  }
  /// Seconds of a message one way, which are half of those there and back.
  Seconds time_message(const Facts& facts, std::uint64_t bytes, int batches) {
    messages_.use(facts);
    const Seconds both = fastest_batch(batches, bytes, [&](std::uint64_t at) {
      const ConstBuffer from{reinterpret_cast<const std::byte*>(in_.data() + at), bytes};
      const Buffer to{reinterpret_cast<std::byte*>(out_.data() + at), bytes};
      for (const bool mine : {rank_ == 0, rank_ != 0}) mine ? send(from) : receive(to);
    });
    return both / 2;
  }
  /// True if `other` takes less than the share `clearly` of the time of the best facts so far. A share below 1 must be
  /// reached twice in a row. `timed` returns the seconds of so many batches under some facts. False: the time is up.
  template <class Timed>
  bool is_faster(const Facts& other, int batches, double clearly, Timed timed) {
    return wins(other, batches, clearly, timed) && (clearly >= 1 || wins(other, batches, clearly, timed));
  }
  template <class Timed>
  bool wins(const Facts& other, int batches, double clearly, Timed timed) {
    return ratio(other, batches, timed) < clearly;
  }
  /// The time of `other` divided by that of the best facts so far; infinite: the time is up. Both are timed in turns,
  /// so that a disturbance affects both.
  template <class Timed>
  double ratio(const Facts& other, int batches, Timed timed) {
    std::array<Seconds, kTurns> now{};
    Seconds then = std::numeric_limits<Seconds>::max();
    for (Seconds& turn : now) {
      turn = timed(best_, std::max(1, batches / kTurns));
      then = std::min(then, timed(other, std::max(1, batches / kTurns)));
    }
    if (!in_time_) return std::numeric_limits<double>::infinity();
    const auto [least, most] = std::ranges::minmax(now);
    spreads_.push_back(most / least - 1);
    return then / least;
  }
  bool faster(const Facts& other, std::uint64_t bytes, Collective collective = Collective::AllReduce,
              double clearly = kClearly) {
    return is_faster(other, batches_of(bytes, collective), clearly,
                     [&](const Facts& facts, int batches) { return time(facts, bytes, collective, batches); });
  }

  void time_knots() {
    for (std::size_t k = 0; k < Facts::kKnots; ++k) {
      const auto bytes = static_cast<std::uint64_t>(Facts::kKnotBytes[k]);
      const std::uint64_t timed = std::min(bytes, kMostBytes);
      const Seconds s = time(best_, timed, Collective::AllReduce, batches_of(timed, Collective::AllReduce));
      if (s > 0)
        best_.knot_seconds[k] = s * static_cast<double>(bytes) / static_cast<double>(std::min(bytes, kMostBytes));
    }
    for (std::size_t k = 1; k < Facts::kKnots; ++k)
      best_.knot_seconds[k] = std::max(best_.knot_seconds[k], best_.knot_seconds[k - 1]);
  }
  /// Several calls in a row, because a rank that only gives runs ahead of the other one.
  void time_apart() {
    constexpr std::uint64_t kCalls = 4;
    constexpr int kBatches = 2;
    for (std::size_t c = 0; c < Facts::kTimedApart.size(); ++c) {
      for (std::size_t l = 0; l < Facts::kApartBytes.size(); ++l) {
        const std::uint64_t bytes = Facts::kApartBytes[l];
        const CollectiveDesc desc{
            .collective = Facts::kTimedApart[c], .dtype = DType::F32, .count = bytes / sizeof(float)};
        const Seconds took = time(best_, bytes, desc.collective, kBatches, kCalls);
        if (took > 0) best_.apart[c][l] = std::clamp(took / predict(desc, 2, best_), 0.2, 5.0);
      }
    }
  }
  /// Chooses the instructions that write memory for other cores.
  void choose_copies() {
    Facts never = best_;
    never.stream_from_bytes = Lengths::kNever;
    double all = 1;  // of four calls: a single one may be level where the others gain a third
    for (const auto& [bytes, c] : {std::pair{64 << 10, Collective::AllReduce},
                                   {512 << 10, Collective::AllReduce},
                                   {256 << 10, Collective::AllGather},
                                   {512 << 10, Collective::Broadcast}})
      all *= ratio(never, batches_of(static_cast<std::uint64_t>(bytes), c),
                   [&](const Facts& f, int batches) { return time(f, static_cast<std::uint64_t>(bytes), c, batches); });
    if (std::pow(all, 0.25) < kClearly) best_ = never;
    for (const std::uint64_t to : {std::size_t{256}, std::size_t{1024}, kLinesBytes}) {
      Facts other = best_;
      other.demoted_bytes = to;
      other.stream_from_bytes = std::max(best_.stream_from_bytes, to + 1);
      if (!faster(other, to)) break;
      best_ = other;
    }
    for (const std::uint64_t from : {512, 1024, 2048}) {
      if (best_.stream_from_bytes == Lengths::kNever || from <= best_.demoted_bytes) continue;
      Facts other = best_;
      other.stream_from_bytes = best_.stream_from_bytes > from ? from : from + 1;
      if (faster(other, from)) best_ = other;
    }
    for (const std::uint64_t from : {1024, 2048}) {
      if (best_.stream_from_bytes <= from || from <= best_.demoted_bytes) continue;
      Facts other = best_;
      other.string_from_bytes = best_.string_from_bytes > from ? from : from + 1;
      if (faster(other, from)) best_ = other;
    }
  }
  /// Compares slots with chunks at each length. The slots end where chunks are faster.
  void choose_slots(Collective collective) {
    for (std::uint64_t bytes = kLeastSlot; bytes <= kSlotMostBytes; bytes *= 2) {
      Facts other = best_;
      const bool slot_now = bytes <= of_family(best_.slot_bytes, collective);
      of_family(other.slot_bytes, collective) = slot_now ? bytes - 1 : bytes;
      if (!faster(other, bytes, collective)) continue;
      best_ = other;
      if (slot_now) return;  // chunks from here on
    }
  }
  /// Sums take as long with short chunks, so these are not tried.
  void choose_chunks(Collective collective) {
    for (const std::uint64_t chunk : {std::uint64_t{128} << 10, std::uint64_t{32} << 10}) {
      if (chunk < of_family(Facts{}.chunk_bytes, collective) && reduces(collective)) continue;
      Facts other = best_;
      of_family(other.chunk_bytes, collective) = chunk;
      if (faster(other, 256 << 10, collective) && faster(other, 1 << 20, collective)) best_ = other;
    }
  }
  /// From the longest on: shorter ones only as long as reading in place wins.
  void choose_direct() {
    for (const std::uint64_t from : {std::uint64_t{4} << 20, std::uint64_t{1} << 20}) {
      Facts other = best_;
      for (const Collective c : {Collective::AllReduce, Collective::ReduceScatter})
        of_family(other.read_in_place, c) = {from, Lengths::kNever};
      if (!faster(other, from)) return;  // a threshold here would hold for longer calls, too
      best_ = other;
    }
  }
  /// Blocks that fit the caches are read in place, longer ones staged past them, or whatever this machine prefers.
  void choose_exchanges(Collective collective) {
    choose_lengths([=](Facts& facts) -> Lengths& { return of_family(facts.read_in_place, collective); },
                   [&](const Facts& other, std::uint64_t block, double clearly) {
                     Facts chunks = other;
                     std::uint64_t& slots = of_family(chunks.slot_bytes, collective);
                     slots = std::min(slots, block - 1);
                     if (!faster(chunks, block, collective, clearly)) return false;
                     of_family(best_.slot_bytes, collective) = slots;
                     return true;
                   });
  }
  void choose_messages() {
    choose_lengths([](Facts& facts) -> Lengths& { return facts.messages_in_place; },
                   [&](const Facts& other, std::uint64_t bytes, double clearly) {
                     return is_faster(
                         other, batches_of(bytes, Collective::AllGather), clearly,
                         [&](const Facts& facts, int batches) { return time_message(facts, bytes, batches); });
                   });
  }
  /// Chooses the lengths that are read in place: from the first length at which that is clearly faster, up to the first
  /// one at which it is clearly slower. If it is not slower at the longest length that is timed, there is no upper end.
  /// `is_better` compares facts with the best ones so far.
  template <class Of, class Faster>
  void choose_lengths(Of of, Faster is_better) {
    constexpr std::uint64_t kLongest = 2 << 20;
    for (std::uint64_t bytes = 32 << 10; bytes <= kLongest; bytes *= 4) {
      Facts other = best_;
      of(other) = {std::min(of(best_).from, bytes), bytes == kLongest ? Lengths::kNever : bytes * 2};
      const bool begun = !of(best_).empty();
      if (is_better(other, bytes, begun ? 1 / kClearly : kClearly)) {
        of(best_) = of(other);
      } else if (begun) {
        return;
      }
    }
  }
  void send(ConstBuffer from) {
    Fired done;
    endpoint_->send(from, tag_of_measuring(), 0, done);
    wait_for_message(done);
  }
  void receive(Buffer to) {
    Fired done;
    endpoint_->recv({to, nullptr, {}}, tag_of_measuring(), done);
    wait_for_message(done);
  }
  Tag tag_of_measuring() const { return Tag::user(messages_.generation(), 1, 1); }
  void wait_for_message(const Fired& done) {
    std::optional<Fired> closed;  // has a value once the endpoint is being closed
    try {
      drive(done, messages_, [&](const Status&) { endpoint_->close(closed.emplace()); });
    } catch (const Error&) {
      while (closed && !closed->fired) messages_.progress();  // `closed` must not end before it has fired
      throw;
    }
  }

  /// The larger of both ranks' values.
  double agree(double value) {
    run(Collective::AllReduce, DType::F64, ReduceOp::Max, &value, &value, 1);
    return value;
  }
  /// `out` is as long as the collective makes it.
  void run(Collective collective, DType dtype, ReduceOp op, const void* in, void* out, std::uint64_t count) {
    const CollectiveDesc desc{.collective = collective, .dtype = dtype, .op = op, .count = count};
    const std::uint64_t bytes = count * size_of(dtype);
    Call call{
        .desc = desc, .in = {static_cast<const std::byte*>(in), bytes}, .out = {static_cast<std::byte*>(out), bytes}};
    call.fingerprint = fingerprint_of(desc);
    if (reduces(collective)) call.reducer = reducer_for(op, dtype);
    Fired done;
    offload_.launch(call, done);
    drive(done, offload_, [this](const Status& why) { offload_.abort(why); });
  }
  /// Makes progress until `done` has fired. If the peer does not answer, calls `end`, which must make `done` fire.
  template <class Source, class End>
  void drive(const Fired& done, Source& source, End end) {
    const auto give_up = Deadline::after(patience_);
    Status why;
    for (std::uint32_t turns = 1; !done.fired; ++turns) {
      if (source.progress() == 0 && yields_) ::sched_yield();
      if ((turns & 0xfff) != 0 || !why.ok()) continue;
      if (give_up.passed()) {
        const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(patience_).count();
        why = {Code::Timeout, fmt::format("measuring shared memory: rank {} did not answer within {} ms", peer_, ms),
               peer_};
      } else if (host_.has_ended(peer_)) {
        why = {Code::PeerLost, fmt::format("measuring shared memory: rank {} has ended", peer_), peer_};
      }
      if (!why.ok()) end(why);
    }
    why.require();
    done.status.require();
  }

  HostPeers& host_;
  int rank_;  // in the pair
  int peer_;
  ShmOffload offload_;
  ShmTransport& messages_;
  Endpoint* endpoint_;  // null: messages are not measured
  bool yields_;
  bool in_time_ = true;
  std::uint64_t next_ = 0;  // bytes; where the next batch begins
  Clock::time_point stop_at_;
  Duration patience_;
  std::vector<float> in_;
  std::vector<float> out_;
  Facts best_;
  std::vector<double> spreads_;  // of each comparison: by how much the slowest repetition took longer than the fastest
  RunQueueDelay delay_;
};

}  // namespace

std::optional<Facts> measure(HostPeers& host, GroupStates& group_states, ShmTransport& messages,
                             const OffloadContext& pair, Duration budget, Duration patience) {
  std::optional<Facts> found = Measurement(host, group_states, messages, pair, budget, patience).choose();
  messages.use(found.value_or(Facts{}));
  return found;
}

}  // namespace sinew::shm
