#include <sched.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <sinew/core/host/cpu.hpp>
#include <sinew/core/host/run_queue_delay.hpp>
#include <sinew/transports/shm/offload/measure.hpp>
#include <sinew/transports/shm/offload/offload.hpp>

namespace sinew::shm {
namespace {

constexpr std::uint64_t kMostBytes = 16 << 20;
constexpr std::uint64_t kBatchBytes = 128 << 10;
constexpr std::uint64_t kMostCalls = 64;
constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();
/// Another way must be that much faster to be preferred to the default.
constexpr double kClearly = 0.95;
/// Ordinary stores leave the written lines in the writer's cache, streaming stores do not. Ordinary stores are chosen
/// only if a call takes less than this share of the time with them. A hypervisor may later move the cores of the two
/// ranks further apart. Then a line in the other core's cache takes four to six times as long to read.
constexpr double kFarFaster = 0.4;
/// Two ways of running a call are compared in this many rounds. Each round times batches of the one, then of the other.
constexpr int kTurns = 3;
/// A measurement is discarded if other processes kept a rank from its core for more than this share of the time. Ways
/// in which the ranks wait less for each other lose less by that, so they would look faster than they are.
constexpr double kDisturbedShare = 0.1;

struct Fired : Completion {
  bool fired = false;
  Fired() : Completion([](Completion& c) noexcept { static_cast<Fired&>(c).fired = true; }) {}
};

class Measurement {
 public:
  Measurement(HostPeers& host, GroupStates& group_states, const OffloadContext& pair, Duration budget,
              Duration patience)
      : host_(host),
        peer_(pair.group.world_ranks[static_cast<std::size_t>(1 - pair.group.rank)]),
        offload_(host, group_states, pair),
        yields_(host.usable_cores() < 2),
        stop_at_(Clock::now() + budget),
        patience_(patience),
        in_(kMostBytes / sizeof(float)),
        out_(kMostBytes / sizeof(float)) {}

  /// Measures until other processes have not disturbed a measurement. Returns nullopt if the budget ends first.
  std::optional<Facts> choose() {
    while (true) {
      best_ = {};
      const Clock::time_point began = Clock::now();
      const Displacement before = delay_.read();
      try_all();
      if (!in_time_) return std::nullopt;
      const Duration took = Clock::now() - began;
      const double took_s = std::chrono::duration<double>(took).count();
      const bool disturbed = !yields_ && displaced(before, delay_.read(), took_s, kDisturbedShare);
      if (agree(disturbed ? 1 : 0) == 0) return best_;
      const bool time_for_another = Clock::now() + took <= stop_at_;
      if (agree(time_for_another ? 0 : 1) != 0) return std::nullopt;
    }
  }

 private:
  void try_all() {
    choose_streaming();
    choose_slots();
    choose_chunks();
    if (offload_.reads_ordinary_memory()) {
      choose_direct();
      choose_exchanges();
    }
    time_knots();
  }
  static int batches_of(std::uint64_t bytes, Collective collective) noexcept {
    const int few = collective == Collective::AllReduce ? 2 : 4;
    return bytes <= 16 << 10 ? 20 : bytes <= 256 << 10 ? 8 : bytes <= 1 << 20 ? 5 : few;
  }
  /// Seconds per call of the fastest of several batches that both ranks start together, of the slower rank. A batch
  /// goes through memory that its owner has just written, none of it twice. 0: the time is up, for both.
  Seconds time(const Facts& facts, std::uint64_t bytes, Collective collective, int batches) {
    const std::uint64_t stride = (bytes + kFalseSharing - 1) / kFalseSharing * kFalseSharing;
    const std::uint64_t calls = std::clamp<std::uint64_t>(kBatchBytes / stride, 1, kMostCalls);
    offload_.use(facts);
    double best = std::numeric_limits<double>::max();
    for (int i = 0; i < batches; ++i) {
      std::fill_n(in_.begin(), calls * stride / sizeof(float), 1.0f);
      in_time_ = agree(Clock::now() >= stop_at_ ? 1 : 0) == 0;
      if (!in_time_) return 0;
      const auto begin = Clock::now();
      for (std::uint64_t c = 0; c < calls; ++c) {
        const std::uint64_t at = c * stride / sizeof(float);
        run(collective, DType::F32, ReduceOp::Sum, in_.data() + at, out_.data() + at, bytes / sizeof(float));
      }
      best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count() / static_cast<double>(calls));
    }
    return agree(best);
  }
  /// Is `other` clearly faster than the best way so far? Both are timed in turns, so that a disturbance affects both.
  /// Returns false if the time is up.
  bool faster(const Facts& other, std::uint64_t bytes, Collective collective = Collective::AllReduce,
              double clearly = kClearly) {
    const int batches = std::max(1, batches_of(bytes, collective) / kTurns);
    Seconds now = std::numeric_limits<Seconds>::max();
    Seconds then = now;
    for (int turn = 0; turn < kTurns; ++turn) {
      now = std::min(now, time(best_, bytes, collective, batches));
      then = std::min(then, time(other, bytes, collective, batches));
    }
    return in_time_ && then < now * clearly;
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
  void choose_streaming() {
    Facts never = best_;
    never.stream_from_bytes = kNever;
    time(best_, 1 << 20, Collective::AllReduce, 1);  // not measured: the kernel maps the shared pages in it
    if (faster(never, 64 << 10, Collective::AllReduce, kFarFaster)) {
      best_ = never;
      return;
    }
    for (const std::uint64_t from : {512, 1024, 2048}) {
      Facts other = best_;
      other.stream_from_bytes = best_.stream_from_bytes > from ? from : from + 1;
      if (faster(other, from)) best_ = other;
    }
  }
  void choose_slots() {
    for (std::uint64_t bytes = 8 << 10; bytes <= kSlotMostBytes; bytes *= 2) {
      Facts other = best_;
      const bool slot_now = bytes <= best_.slot_bytes;
      other.slot_bytes = slot_now ? bytes - 1 : bytes;
      if (!faster(other, bytes)) continue;
      best_ = other;
      if (slot_now) return;  // chunks from here on
    }
  }
  void choose_chunks() {
    for (const std::uint64_t chunk : {std::uint64_t{32} << 10, std::uint64_t{64} << 10, std::uint64_t{256} << 10}) {
      Facts other = best_;
      other.chunk_bytes = chunk;
      if (faster(other, 1 << 20)) best_ = other;
    }
  }
  void choose_direct() {
    for (const std::uint64_t from : {kMostBytes, std::uint64_t{1} << 20}) {
      Facts other = best_;
      other.direct_from_bytes = from;
      if (!faster(other, from)) return;  // a threshold here would hold for longer calls, too
      best_ = other;
    }
  }

  /// Blocks that fit the caches are read in place, longer ones staged past them, or whatever this machine prefers.
  void choose_exchanges() {
    for (std::uint64_t block = 128 << 10; block <= kMostBytes / 2; block *= 4) {
      Facts other = best_;
      other.exchange_direct_from_bytes = std::min(best_.exchange_direct_from_bytes, block);
      other.exchange_direct_to_bytes = 2 * block;
      if (faster(other, block, Collective::AllGather)) {
        best_ = other;
      } else if (best_.exchange_direct_from_bytes != kNever) {
        return;  // the range must have no gap
      }
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
    const auto give_up = Deadline::after(patience_);
    for (std::uint32_t turns = 1; !done.fired; ++turns) {
      if (offload_.progress() == 0 && yields_) ::sched_yield();
      if ((turns & 0xfff) != 0) continue;
      if (give_up.passed()) {
        const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(patience_).count();
        offload_.abort({Code::Timeout,
                        fmt::format("measuring shared memory: rank {} did not answer within {} ms", peer_, ms), peer_});
      }
      if (host_.has_ended(peer_)) {
        const std::string gone = fmt::format("measuring shared memory: rank {} has ended", peer_);
        offload_.abort({Code::PeerLost, gone, peer_});
      }
    }
    done.status.require();
  }

  HostPeers& host_;
  int peer_;
  ShmOffload offload_;
  bool yields_;
  bool in_time_ = true;
  Clock::time_point stop_at_;
  Duration patience_;
  std::vector<float> in_;
  std::vector<float> out_;
  Facts best_;
  RunQueueDelay delay_;
};

}  // namespace

std::optional<Facts> measure(HostPeers& host, GroupStates& group_states, const OffloadContext& pair, Duration budget,
                             Duration patience) {
  return Measurement(host, group_states, pair, budget, patience).choose();
}

}  // namespace sinew::shm
