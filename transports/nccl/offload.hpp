#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <sinew/core/deadline.hpp>
#include <sinew/core/offload.hpp>
#include <sinew/core/transport/block_pool.hpp>
#include <sinew/transports/nccl/agreement.hpp>
#include <sinew/transports/nccl/calls/operators.hpp>
#include <sinew/transports/nccl/known_memory.hpp>
#include <sinew/transports/nccl/launch_order.hpp>
#include <sinew/transports/nccl/own_stream.hpp>
#include <sinew/transports/nccl/prospects.hpp>

namespace sinew::nccl {

/// What the communicators of one World share.
struct Shared {
  Shared(Library l, DeviceRuntime& runtime, int device, Duration t)
      : library(std::move(l)),
        order(runtime, device, orders_itself(library.version)),
        endings(library.api, t),
        timeout(t) {}

  Library library;
  LaunchOrder order;
  LeftStreams left_streams;
  Endings endings;  // ends before the streams, which NCCL may still use
  Duration timeout;
};

/// Whole collectives on device memory by one NCCL communicator, which never blocks: what it has not finished yet is
/// asked for in progress().
class NcclOffload final : public CollectiveOffload, private Issuer, private OffloadMemory {
 public:
  /// `devices`: their links, by rank of the group.
  NcclOffload(Shared& shared, const Group& group, Agreement agreed, std::span<const DeviceLinks> devices);
  ~NcclOffload() override;

  std::string_view name() const noexcept override { return "nccl"; }
  Availability supports(const CollectiveDesc& desc) const override;
  Seconds predict(const CollectiveDesc& desc) const override;
  std::string describe(const CollectiveDesc& desc) const override;
  CostSource source() const noexcept override { return prospects_.source(); }
  bool needs_progress() const noexcept override { return false; }
  Availability supports_capture() const override { return prospects_.supports_capture(); }
  void launch(const sinew::Call& call, Completion& done) override;
  void abort(const Status& reason) noexcept override;
  std::size_t memory_bytes() const noexcept override { return own_ ? own_->scratch().bytes() : 0; }
  bool set_stream_priority(StreamPriority priority) override;
  OffloadMemory* memory() noexcept override { return this; }

  const Abilities& abilities() const noexcept { return abilities_; }
  /// Why NCCL cannot split this communicator, as this rank sees it; empty: it can.
  std::string no_split() const;
  /// Collective, in the order of the calls: has NCCL split off the ranks of `color`, in the order of `key`.
  /// `birth`: null where this rank comes into no part.
  void split(std::shared_ptr<Birth> birth, int color, int key, Completion& done);

  int progress() noexcept override;
  bool active() const noexcept override { return pending_ > 0; }
  /// Nobody is woken by a device.
  int wake_descriptor() const noexcept override { return -1; }
  bool arm() noexcept override { return !active(); }
  void disarm() noexcept override {}

 private:
  enum class State : std::uint8_t {
    Making,  ///< since creation, until NCCL has met all ranks
    Ready,
    Busy,  ///< with a call that it took
    Ended
  };

  Availability available() const override;
  std::string describe() const override;
  Region allocate(std::size_t bytes) override { return known_.allocate(bytes); }
  void attach(const Region& region, Completion& done) override;

  Answer ready(const Launch& next) noexcept override;
  Answer issue(const Launch& launch) noexcept override;
  void started(Launch& launch) noexcept override;

  void begin(Launch& launch);
  void begin(std::shared_ptr<Errand> errand, Completion& done);
  Answer poll(const Errand* errand) noexcept;
  bool born() noexcept;
  void give_up(const char* function) noexcept;
  Answer run(Errand& errand);
  NcclCall apart(const Launch& launch, StreamRef stream);
  OwnStream& own();
  void captured(Launch& launch) noexcept;
  Answer answer_to(Result result, std::string_view function) noexcept;
  void fail(const std::string& why) noexcept;
  void end(const Status& reason) noexcept;
  int finish_reached() noexcept;
  int finish_ended() noexcept;
  bool drained() noexcept;
  void look_for_errors() noexcept;
  void forget_dropped() noexcept;
  void finish(Launch& launch, Status status) noexcept;
  void put_away(Launch& launch) noexcept;

  Shared& shared_;
  const int rank_;
  const int ranks_;
  const std::string place_;  // names this rank and its communicator in errors
  const std::string obstacle_;
  const Abilities abilities_;
  const NcclProspects prospects_;
  const std::string origin_;
  Comm comm_;
  std::shared_ptr<Birth> birth_;  // where `comm_` is still to come from
  const Deadline made_by_;
  Deadline through_by_;  // with the errand that NCCL is at work on
  State state_;
  StreamPriority priority_ = StreamPriority::Normal;
  std::unique_ptr<OwnStream> own_;  // made by the first call
  Operators operators_;
  KnownMemory known_;
  BlockPool pool_;
  LaunchList started_;  // on the stream, in order; errands that are done
  LaunchList ended_;    // after end(): all that were not started
  int pending_ = 0;
  std::uint32_t quiet_turns_ = 0;
  Status end_;
  Endings::Done aborted_;           // after end() with calls on the stream
  Endings::Done through_;           // set when NCCL is through with the communicator; null: it had none
  DeviceRuntime::Event drain_ = 0;  // recorded when NCCL was through with the abort
  bool draining_ = false;
};

}  // namespace sinew::nccl
