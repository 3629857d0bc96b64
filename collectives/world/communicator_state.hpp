#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <sinew/collectives/control/controlled.hpp>
#include <sinew/collectives/selection/plan_cache.hpp>
#include <sinew/collectives/staging/calls.hpp>
#include <sinew/collectives/world/user_messages.hpp>
#include <sinew/collectives/world/world_state.hpp>
#include <sinew/core/call/call_options.hpp>
#include <sinew/core/work.hpp>

namespace sinew {

class ChildCommunicator;

/// Optional arguments of a call, beside its description.
struct CallExtras {
  CallPartsRef parts{};       ///< the parts of a v-form
  ReadyPlan* plan = nullptr;  ///< the call's plan, if it is known; null: it is looked up
  bool is_within_progress =
      false;  ///< true: an offload starts the call as it makes progress, so nobody is woken for it
};

/// The state behind a Communicator.
struct CommunicatorState : Controlled {
  /// The last owner closes the state. If calls have not ended even then, because a stopped peer may still read their
  /// memory, the World keeps the state. Transports write into it when the calls end.
  static std::shared_ptr<CommunicatorState> make(std::shared_ptr<WorldState> world, Group group);
  ~CommunicatorState() override;
  CommunicatorState(const CommunicatorState&) = delete;
  CommunicatorState& operator=(const CommunicatorState&) = delete;

  WorldState* const world;
  std::shared_ptr<WorldState> keeps_world;  ///< null after close()
  Group group;
  std::vector<NamedOffload> offloads;
  std::vector<std::shared_ptr<ChildCommunicator>> children;  ///< in which an offload of this communicator makes calls
  std::unique_ptr<Selector> selector;
  Status ended;                        ///< the reason with which later calls end; Ok: the communicator is alive
  std::uint32_t sequence = 0;          ///< number of collectives so far
  std::uint64_t history = 0;           ///< hash of all collectives so far
  std::uint32_t logged = 0;            ///< the communicator's number in the log of calls
  std::unique_ptr<CallHistory> times;  ///< null: calls are not timed
  bool times_wanted = true;            ///< true: calls that begin now are timed
  UserMessages messages;

  Work start(const CollectiveDesc& desc, ConstBuffer in, Buffer out, bool in_place, const CallOptions& options) {
    const auto held = world->hold();
    return start_held(desc, in, out, in_place, options);
  }
  /// Does the same as start(). The caller holds the World's lock.
  Work start_held(const CollectiveDesc& desc, ConstBuffer in, Buffer out, bool in_place, const CallOptions& options,
                  const CallExtras& extras = {}) {
    return Work(start_call(desc, in, out, in_place, options, extras));
  }
  /// Does the same as start_held(). A caller that makes no Work gives the call back by CallSlab::free().
  PendingCall& start_call(const CollectiveDesc& desc, ConstBuffer in, Buffer out, bool in_place,
                          const CallOptions& options, const CallExtras& extras);
  /// Does the same as start() after the checks of call_shape(). It adds the places of the buffers to `desc`.
  Work start_shaped(CollectiveDesc desc, ConstBuffer in, Buffer out, const CallOptions& options);
  /// Opens a call under the World's lock. `extent` is the number that the fingerprint has folded (call_record.hpp).
  PendingCall& begin(Fingerprint fingerprint, int peer, std::uint64_t extent, const CallOptions& options);
  /// Closes a call that was opened but could not be launched. Its caller gets an exception instead of a Work.
  void give_up(PendingCall& op) noexcept;
  CallPartsRef take_parts() { return parts_.take(); }
  /// Returns the plan of a call, and makes it on first use.
  std::shared_ptr<ReadyPlan> ready_plan(const CollectiveDesc& desc);
  /// Returns the Group::identity that the next split gives to the ranks with this color.
  std::uint64_t identity_of_child(int color) const noexcept;

  const Group& members() const noexcept override { return group; }
  std::uint32_t last_sequence() const noexcept override { return sequence; }
  const Status& end_reason() const noexcept override { return ended; }
  void end(const Status& reason) noexcept override;
  OpenMessages open_messages(std::uint32_t call) const override {
    return world->executor.open_messages(group.communicator, static_cast<std::uint16_t>(call));
  }
  const void* owner() const noexcept override { return this; }

  /// Uses these offloads from now on.
  void adopt(std::vector<NamedOffload> made);
  /// Puts an offload behind the others, in the place of the one with its name, if there is one.
  void use_offload(const std::string& transport, std::unique_ptr<CollectiveOffload> offload);
  /// See Communicator::set_stream_priority().
  void set_stream_priority(StreamPriority priority);
  /// Does the same, under the World's lock. Returns false if it comes too late.
  bool choose_stream_priority(StreamPriority priority);
  /// Refuses memory of another device than this rank's.
  void require_own_device(std::string_view call, Place place) const;
  /// Does the same, and refuses a stream that is being captured.
  void require_own_device(std::string_view call, Place place, StreamRef after) const;
  /// Starts a call in which all ranks use a function of an offload that is not a collective, for `bytes` bytes of
  /// memory.
  Work start_on_offload(std::uint64_t bytes, const std::function<void(Completion&)>& start_it,
                        const CallOptions& options);
  /// Returns an exchange among this communicator's ranks, made of its collectives.
  Exchange exchange(const CallOptions& options);
  std::size_t memory_bytes() const;
  /// Does not count the children, and no memory that communicators share.
  std::size_t own_memory_bytes() const;
  /// Gives memory back to the World. Precondition: no call is in flight, or none can make progress any more.
  void release() noexcept;

 private:
  struct Close {
    void operator()(CommunicatorState* state) const;
  };

  CommunicatorState(std::shared_ptr<WorldState> world, Group group);
  /// As DeviceRuntime::capture_of. Returns 0 if there is no stream or no device.
  std::uint64_t capture_of(StreamRef stream) const;
  /// Makes progress until the captured call has become part of its capture or has failed.
  void finish_capture(PendingCall& op, const CallOptions& options);
  void launch(PendingCall& op, const CollectiveDesc& desc, ConstBuffer in, Buffer out, bool in_place,
              const CallOptions& options, const CallExtras& extras);
  /// `origin` is the call of the user, of which this may be a segment.
  void launch_on_host(ReadyPlan& plan, ConstBuffer in, Buffer out, bool in_place, const CallPartsRef& parts,
                      PendingCall& origin, std::uint64_t history_of_call, Completion& done);
  StagedCalls& staged_calls();
  std::unique_ptr<ReadyPlan> make_plan(const CollectiveDesc& desc);
  Executable& executable(ReadyPlan& plan, bool in_place);
  /// Returns false if calls are still in flight.
  bool close();
  /// Called before a plan is destroyed.
  void retire(ReadyPlan& plan) noexcept;
  void drop_idle_plans();
  PendingCall& begin_next(Fingerprint fingerprint, std::uint64_t extent, const CallOptions& options);

  PlanCache plans_;
  const ReadyPlan* staged_plan_ = nullptr;  // the plan of the latest staged segment, which may be in flight
  CallPartsPool parts_;
  StreamPriority stream_priority_ = StreamPriority::Normal;
  std::unique_ptr<StagedCalls> staged_calls_;  // made by the first call on device memory
};

}  // namespace sinew
