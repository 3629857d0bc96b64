#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/collectives/device_hierarchy/program.hpp>
#include <sinew/collectives/device_hierarchy/prospects.hpp>
#include <sinew/core/offload.hpp>
#include <sinew/core/runtime/call_slab.hpp>
#include <sinew/core/transport/device.hpp>

namespace sinew {

/// A communicator of some ranks of a group, in which the offload of the group makes calls.
/// Thread: of the World's engine, under its lock.
class PartOfGroup {
 public:
  virtual ~PartOfGroup() = default;
  /// Starts a call. The caller gives the PendingCall back with CallSlab::free() when it has ended.
  /// `history`: Call::history of the group's call. Ranks whose calls of the group differ end with Mismatch, although
  /// their calls of the part may be equal.
  /// Errors: those of Communicator's calls.
  virtual PendingCall& start(const CollectiveDesc& desc, ConstBuffer in, Buffer out, bool in_place, StreamRef after,
                             std::uint64_t history) = 0;
  /// Ends all calls of this rank in the part, and later ones, with `reason`.
  virtual void end(const Status& reason) noexcept = 0;
  /// As CollectiveOffload::set_stream_priority.
  virtual bool set_stream_priority(StreamPriority priority) = 0;
};

/// Runs collectives on device memory of ranks on several hosts: within each host from device to device, and between the
/// hosts through pinned memory, each rank with the ranks at its place. Calls run one after the other.
/// Errors: what ends a call of a part ends the call, with the rank's number in the group, and all that follow.
/// Cost:   device memory for reduce_scatter and all_to_all, as HierarchyProgram::scratch_bytes says, from the first
///         such call on; an event for each call.
class DeviceHierarchy final : public CollectiveOffload {
 public:
  /// `on_host` and `on_rail` outlive this object. The ranks of `on_rail` are in the order of their hosts.
  DeviceHierarchy(std::unique_ptr<HierarchyProspects> prospects, DeviceRuntime& runtime, int device, int rank,
                  PartOfGroup& on_host, PartOfGroup& on_rail);
  ~DeviceHierarchy() override;

  std::string_view name() const noexcept override { return prospects_->name(); }
  Availability supports(const CollectiveDesc& desc) const override { return prospects_->supports(desc); }
  Seconds predict(const CollectiveDesc& desc) const override { return prospects_->predict(desc); }
  std::string describe(const CollectiveDesc& desc) const override { return prospects_->describe(desc); }
  CostSource source() const noexcept override { return prospects_->source(); }
  void launch(const Call& call, Completion& done) override;
  void abort(const Status& reason) noexcept override;
  bool set_stream_priority(StreamPriority priority) override;
  std::size_t memory_bytes() const noexcept override { return scratch_.bytes; }

  int progress() noexcept override;
  bool active() const noexcept override { return !calls_.empty(); }
  int wake_descriptor() const noexcept override { return -1; }
  /// The thread may sleep only while nothing is to do, as with StagedCalls.
  bool arm() noexcept override { return calls_.empty(); }
  void disarm() noexcept override {}

 private:
  struct Step {
    PendingCall* call = nullptr;  // null: it has not started, or it has ended
    bool has_ended = false;
  };
  struct Running {
    HierarchyProgram program;
    std::vector<Step> steps;
    std::size_t next_on_host = 0;  // the first step of a part that has not started
    std::size_t next_on_rail = 0;
    ConstBuffer in;
    Buffer out;
    DeviceRuntime::Event after = 0;
    bool waits = false;  // for `after`
    bool is_prepared = false;
    std::uint64_t history = 0;
    Completion* done = nullptr;
    Status status;
  };

  ConstBuffer memory_of(const Running& r, const HierarchyMemory& m) const noexcept;
  PartOfGroup& part(HierarchyStep::Among among) noexcept;
  /// Returns `from`, or the first step behind it, that is a step of this part.
  static std::size_t next_of(const Running& r, HierarchyStep::Among among, std::size_t from) noexcept;
  void prepare(Running& r);
  void start(Running& r, std::size_t step);
  /// Starts the steps of a part whose turn has come. Returns how many.
  int start_ready(Running& r, HierarchyStep::Among among, std::size_t& next);
  int take_ended(Running& r) noexcept;
  Status in_group(const Status& status, HierarchyStep::Among among) const;

  std::unique_ptr<HierarchyProspects> prospects_;
  DeviceRuntime& runtime_;
  const int device_;
  const int rank_;
  PartOfGroup& on_host_;
  PartOfGroup& on_rail_;
  StreamRef stream_;  // of waits for the callers' streams
  Buffer scratch_;
  std::deque<Running> calls_;
  Status ended_;
};

}  // namespace sinew
