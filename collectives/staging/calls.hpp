#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include <sinew/collectives/execution/call_parts.hpp>
#include <sinew/collectives/staging/segments.hpp>
#include <sinew/core/call/collective.hpp>
#include <sinew/core/completion.hpp>
#include <sinew/core/transport/device.hpp>
#include <sinew/core/transport/progress_source.hpp>

namespace sinew {

/// Runs the collectives of one communicator on device memory. The data go through pinned memory of the host in
/// segments. While one segment is exchanged, the next one is copied from the device and the one before is copied to the
/// device. These calls, and calls that are queued behind them, run one after the other in the order in which they were
/// made. So all ranks start their exchanges in the same order. If each rank knows only its own counts, the ranks agree
/// on the segments before the first one, by one all_reduce of two words.
/// Thread: of the World's engine. Cost: six pinned segments, allocated by the first call.
class StagedCalls : public ProgressSource {
 public:
  /// The facts of one segment that is exchanged between host buffers. `origin` is the call of the segment, and `parts`
  /// has its local counts.
  struct SegmentOf {
    Completion& origin;
    std::uint64_t history;
    bool in_place;
    const CallPartsRef& parts;
  };
  using Exchange = std::function<void(const CollectiveDesc& segment, ConstBuffer in, Buffer out, const SegmentOf& of,
                                      Completion& done)>;

  StagedCalls(DeviceRuntime& runtime, int device, StreamPriority priority, int rank, int ranks, Exchange exchange);
  ~StagedCalls() override;

  /// `local`: the call's own chunks, where counts are local. `done` fires from this source's progress().
  void start(const CollectiveDesc& desc, const CallPartsRef& local, ConstBuffer in, Buffer out, StreamRef after,
             std::uint64_t history, Completion& done);
  /// Runs `launch` when all that was started before has been exchanged.
  void queue(std::function<void()> launch) { calls_.push_back(std::make_unique<Call>(std::move(launch))); }
  /// Ends all started calls with `reason`, each after the exchange of its segment in flight. Then no buffer is touched
  /// any more.
  void abort(const Status& reason) noexcept;
  bool busy() const noexcept { return !calls_.empty(); }

  int progress() noexcept override;
  bool active() const noexcept override { return busy(); }
  int wake_descriptor() const noexcept override { return -1; }
  /// A device wakes no thread. So the thread may sleep only while nothing is to do, or while a segment is exchanged on
  /// the host: the exchange wakes the thread.
  bool arm() noexcept override { return !busy() || exchanging_; }
  void disarm() noexcept override {}

 private:
  struct Call {
    explicit Call(std::function<void()> what) : launch(std::move(what)) {}
    Call(const CollectiveDesc& of, Completion& end) : desc(of), done(&end) {}

    std::function<void()> launch;  // of a call that only waits for its turn; the rest is for staged ones
    CollectiveDesc desc;           // its `counts` and `user` are these: the caller's may be gone
    std::vector<std::uint64_t> counts;
    Reducer user;
    Completion* done = nullptr;
    ConstBuffer in;
    Buffer out;
    std::uint64_t history = 0;
    StagedParts parts;
    StagedSegments segments;
    bool knows_segments = false;  // false: the ranks have not agreed on `segments` yet
    bool agreeing = false;
    DeviceRuntime::Event after = 0;
    bool waits = false;
    std::uint64_t copied_in = 0, started = 0,
                  landed = 0;  // segments of which the copy in, the exchange, the copy out has begun
    Status status;
  };
  /// The pinned memory of a segment in flight.
  struct Slot {
    Buffer in, out;
    DeviceRuntime::Event event = 0;
    bool copying = false;
  };
  struct Segment : Completion {
    using Completion::Completion;
    StagedCalls* owner = nullptr;
  };

  /// Whether this rank's data leave the device, and whether what it receives goes there.
  bool gives(const Call& call) const noexcept;
  bool takes(const Call& call) const noexcept;
  Slot& slot_of(std::uint64_t segment) noexcept { return slots_[segment % slots_.size()]; }
  bool idle(Slot& slot);
  /// Asks all ranks for the cut, then takes what they agreed on.
  int agree(Call& call);
  void require_landed(const Call& call) const;
  void copy_in(Call& call);
  void exchange(Call& call);
  void copy_out(Call& call);
  /// What can be done for the first call now; how many things that were.
  int advance(Call& call);
  void mark_rest() noexcept;
  bool all_idle() noexcept;
  void make_slots();

  DeviceRuntime& runtime_;
  const int device_;
  const StreamPriority priority_;
  const int rank_;
  const int ranks_;
  Exchange exchange_;
  StreamRef in_stream_, out_stream_;
  std::array<Slot, 3> slots_;
  std::deque<std::unique_ptr<Call>> calls_;
  std::vector<DeviceRuntime::Event> rest_;  // after a failure: the ends of what was enqueued
  CallPartsRef segment_parts_{new CallParts};
  std::array<std::uint64_t, 2> agreement_{};
  Segment segment_;
  bool exchanging_ = false;  // true while agreement_ or a segment is exchanged
};

}  // namespace sinew
