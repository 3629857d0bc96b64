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
#include <sinew/core/call/extent.hpp>
#include <sinew/core/call/group.hpp>
#include <sinew/core/completion.hpp>
#include <sinew/core/numeric/reduce.hpp>
#include <sinew/core/transport/device.hpp>
#include <sinew/core/transport/offload_memory.hpp>
#include <sinew/core/transport/progress_source.hpp>

namespace sinew {

/// One collective call on its way to an offload. Buffers live until the completion fires; `desc` and the parts only
/// until launch returns.
struct Call {
  const CollectiveDesc& desc;
  ConstBuffer in;
  Buffer out;
  StreamRef after{};
  Fingerprint fingerprint = 0;
  std::uint64_t history = 0;   ///< hash of this and all earlier calls of the communicator: equal where all were
  Reducer reducer{};           ///< resolved for desc.op and desc.dtype; fn null where the collective does not reduce
  ManyReducer many{};          ///< the same for all ranks' contributions at once; fn null: only `reducer`
  Scaler scaler{};             ///< Average: applied once to the finished sum; PreMulSum: to each contribution
  DeviceMark* mark = nullptr;  ///< device memory: to be set when the call's work is enqueued; never null then
  std::span<const Extent> in_parts{};   ///< local counts: what goes to each rank (gather_v: one, to the root); elements
  std::span<const Extent> out_parts{};  ///< what comes from each rank (scatter_v: one, from the root); empty: no buffer
};

/// Runs whole collectives where something better than messages exists: shared memory within a host, NCCL, CUDA IPC.
/// Calls of one offload complete in launch order.
class CollectiveOffload : public ProgressSource {
 public:
  virtual std::string_view name() const noexcept = 0;
  /// supports, predict and describe are pure functions of the call and of facts agreed at creation: equal on all ranks.
  virtual Availability supports(const CollectiveDesc& desc) const = 0;
  virtual Seconds predict(const CollectiveDesc& desc) const = 0;
  /// The way it would take: "flag line", "pull, 128 KiB chunks", ...
  virtual std::string describe(const CollectiveDesc& desc) const = 0;
  /// Never blocks; `done` fires from progress() with Mismatch naming the rank if somebody made another call, now
  /// or before.
  virtual void launch(const Call& call, Completion& done) = 0;
  /// Everything launched ends with `reason` at the next progress; later launches too. No user buffer is touched after.
  virtual void abort(const Status& reason) noexcept = 0;
  /// Bytes of memory held for this group on this rank.
  virtual std::size_t memory_bytes() const noexcept = 0;
  virtual OffloadMemory* memory() noexcept { return nullptr; }
};

}  // namespace sinew
