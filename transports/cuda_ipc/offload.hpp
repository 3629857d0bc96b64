#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sinew/core/host/host_peers.hpp>
#include <sinew/core/offload.hpp>
#include <sinew/transports/cuda_ipc/board.hpp>
#include <sinew/transports/cuda_ipc/prospects.hpp>
#include <sinew/transports/cuda_ipc/scratch.hpp>

namespace sinew::cuda_ipc {

/// What others of a group that has ended here may still read: the lines stay until the World ends, the scratch memory
/// until all have left.
struct RetainedMemory {
  std::unique_ptr<Scratch> scratch;
  std::unique_ptr<Board> board;
  bool failed = false;  ///< nobody begins to read any more
};

/// Runs collectives on device memory between the processes of one host. Each rank copies its contribution, in
/// fragments, into scratch memory that all ranks have mapped. When all ranks have copied a fragment, each rank's own
/// kernels read what the rank needs. The host waits for the event of each phase and tells the other ranks through host
/// memory. A kernel never waits for a kernel of another process, which on a shared device might not be running.
/// Errors: Mismatch if another rank made another call.
/// Cost:   two phases for each fragment. Long all_reduces take three: each rank reduces its part, then takes the
///         others' results. If processes share a device, each phase waits until all of them have had their turn.
/// Source: one-shot and two-shot all-reduce as in TensorRT-LLM and vLLM.
class IpcOffload final : public CollectiveOffload {
 public:
  /// Collective over context.exchange: two rounds, whatever goes wrong. Errors: the same on all ranks, Unavailable.
  /// `retained`: receives the memory that this object leaves behind, and outlives this object.
  IpcOffload(HostPeers& host, cuda::Runtime& runtime, int device, const OffloadContext& context,
             std::vector<RetainedMemory>& retained);
  ~IpcOffload() override;

  std::string_view name() const noexcept override { return "cuda_ipc"; }
  Availability supports(const CollectiveDesc& desc) const override { return prospects_->supports(desc); }
  Seconds predict(const CollectiveDesc& desc) const override { return prospects_->predict(desc); }
  std::string describe(const CollectiveDesc& desc) const override { return prospects_->describe(desc); }
  CostSource source() const noexcept override { return prospects_->source(); }
  void launch(const Call& call, Completion& done) override;
  void abort(const Status& reason) noexcept override;
  bool set_stream_priority(StreamPriority priority) override;
  std::size_t memory_bytes() const noexcept override { return sizeof(Line) + 2 * kFragmentBytes; }

  int progress() noexcept override;
  bool active() const noexcept override { return !calls_.empty(); }
  int wake_descriptor() const noexcept override { return host_.wake_descriptor(); }
  bool arm() noexcept override;
  void disarm() noexcept override { host_.disarm(); }

 private:
  enum class Phase : std::uint8_t { Give, Given, Reduce, Reduced, Take, Taken };
  /// A call that is in flight or waits for the calls before it.
  struct Running {
    CollectiveDesc desc;
    ConstBuffer in;
    Buffer out;
    Fingerprint fingerprint = 0;
    std::uint64_t history = 0;
    double scale = 1;  // of the finished sum
    double scale_in = 1;
    DeviceMark* mark = nullptr;
    Completion* done = nullptr;
    Shape shape;
    std::uint64_t fragment = 0;  // number of the fragment within the call, from 0
    std::optional<DeviceRuntime::Event> after;
    Status status{};
  };

  /// This rank's half of the meeting: what the others need, or why there is nothing.
  Bytes present(int device) noexcept;
  void join(const OffloadContext& context, const std::vector<Bytes>& cards);
  std::uint64_t elements_now(const Running& r) const noexcept;
  std::size_t bytes_now(const Running& r) const noexcept { return elements_now(r) * size_of(r.desc.dtype); }
  /// The part of a two-shot fragment that a rank reduces: [first, first + count) elements.
  std::pair<std::uint64_t, std::uint64_t> part_of(const Running& r, std::size_t rank) const noexcept;

  /// What it needs next is another rank's to do.
  bool waits_for_others(const Running& r) const noexcept;
  /// One step of the call in front; false: it waits.
  bool step(Running& r);
  void give(Running& r);
  void reduce(Running& r);
  void take(Running& r);
  void combine(Buffer to, std::uint64_t first, std::uint64_t elements, const Running& r);
  void check_same_call(const Running& r) const;
  void mark_event();
  bool event_over();
  bool drained() noexcept;
  void finish_front();

  HostPeers& host_;
  cuda::Runtime& runtime_;
  const Group group_;
  const std::size_t rank_;
  const std::size_t ranks_;
  std::vector<RetainedMemory>& retained_;
  std::unique_ptr<Scratch> scratch_;
  std::unique_ptr<Board> board_;
  std::optional<IpcProspects> prospects_;
  StreamRef stream_;
  bool has_launched_ = false;
  std::deque<Running> calls_;
  std::uint64_t fragment_ = 1;  // number of the fragment in flight
  Phase phase_ = Phase::Give;
  std::optional<DeviceRuntime::Event> event_;
  Status ended_{};
};

}  // namespace sinew::cuda_ipc
