#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/core/buffer.hpp>
#include <sinew/core/call/call_options.hpp>
#include <sinew/core/call/collective.hpp>
#include <sinew/core/call/cost.hpp>
#include <sinew/core/call/cost_model.hpp>
#include <sinew/core/call/extent.hpp>
#include <sinew/core/call/group.hpp>
#include <sinew/core/completion.hpp>
#include <sinew/core/numeric/reduce.hpp>
#include <sinew/core/transport/device.hpp>
#include <sinew/core/transport/offload_memory.hpp>
#include <sinew/core/transport/progress_source.hpp>

namespace sinew {

/// A collective call that is passed to an offload.
/// Lifetime: the buffers until the completion fires; `desc` and the parts only until launch() returns.
struct Call {
  const CollectiveDesc& desc;
  ConstBuffer in;
  Buffer out;
  StreamRef after{};
  std::uint64_t capture = 0;  ///< of `after`, if desc.captured: DeviceRuntime::capture_of
  Fingerprint fingerprint = 0;
  std::uint64_t history = 0;  ///< hash of this and all earlier calls of the communicator; equal if the calls were
  Reducer reducer{};          ///< for desc.op and desc.dtype; `fn` is null if the collective does not reduce
  ManyReducer many{};         ///< reduces the contributions of all ranks at once; `fn` null: use `reducer`
  Scaler scaler{};            ///< Average applies it once, to the sum; PreMulSum applies it to each contribution
  /// The offload sets it when the call's work is enqueued on the device. Null for host memory, and only then.
  DeviceMark* mark = nullptr;
  /// The part of `in` for each rank, in elements, of a call with local counts. gather_v has one part, for the root.
  std::span<const Extent> in_parts{};
  /// The part of `out` from each rank, in elements. scatter_v has one part, from the root. Empty: there is no `out`.
  std::span<const Extent> out_parts{};
};

/// Answers questions about an offload's calls without running them.
class OffloadProspects {
 public:
  virtual ~OffloadProspects() = default;
  virtual std::string_view name() const noexcept = 0;
  /// Returns yes if it can run such calls, or the reason why not.
  /// All ranks get equal results from supports(), predict() and describe(). They depend only on the call, and on facts
  /// that the ranks agreed on at creation.
  virtual Availability supports(const CollectiveDesc& desc) const = 0;
  /// Predicts the time of such a call.
  virtual Seconds predict(const CollectiveDesc& desc) const = 0;
  /// Names the method by which such a call would run, for example "flag line".
  virtual std::string describe(const CollectiveDesc& desc) const = 0;
  /// The source of the numbers that predict() uses.
  virtual CostSource source() const noexcept { return CostSource::Default; }
  /// True if a call moves on only while its host makes progress. Predictions take for granted that the host does.
  virtual bool needs_progress() const noexcept { return true; }
  /// Returns yes if calls may be captured into a graph of the device, or the reason why not.
  virtual Availability supports_capture() const {
    return Availability::no("the host takes part in each of its calls, and a graph is replayed without the host");
  }
};

/// Runs whole collectives without messages: by shared memory within a host, by NCCL, or by CUDA IPC. The calls of one
/// offload complete in the order of their launches. A captured call is put on `Call::after` itself. It completes when
/// it is part of the capture, in launch() or in progress(). Nothing of it has run then.
class CollectiveOffload : public ProgressSource, public OffloadProspects {
 public:
  /// Starts a call. Never blocks. `done` fires in progress() unless the call is captured. It ends with Mismatch and a
  /// rank's number if that rank has made another call, this time or earlier.
  virtual void launch(const Call& call, Completion& done) = 0;
  /// Ends all calls that were launched with `reason` at the next progress(), and later calls too. When they have ended,
  /// users' buffers are not touched any more.
  virtual void abort(const Status& reason) noexcept = 0;
  /// The bytes that this rank holds for the group.
  virtual std::size_t memory_bytes() const noexcept = 0;
  /// Chooses the priority of the stream on which calls run. Returns false if a call has made the stream already.
  /// Errors: as DeviceRuntime::make_stream.
  virtual bool set_stream_priority(StreamPriority /*priority*/) { return true; }
  /// The offload's own kind of device memory, or null if it has none.
  virtual OffloadMemory* memory() noexcept { return nullptr; }
};

}  // namespace sinew
