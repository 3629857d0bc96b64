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

/// What a call may bring beside its description.
struct CallExtras {
  CallPartsRef parts{};       ///< the v-forms
  ReadyPlan* plan = nullptr;  ///< where it has been looked up before
};

/// The inside of a Communicator.
struct CommunicatorState : Controlled {
  /// Its last owner closes it. Where calls have not come back even then, because a peer that is stopped may still read
  /// their memory, it stays with its World, and so does all that transports write when they end.
  static std::shared_ptr<CommunicatorState> make(std::shared_ptr<WorldState> world, Group group);
  ~CommunicatorState() override;
  CommunicatorState(const CommunicatorState&) = delete;
  CommunicatorState& operator=(const CommunicatorState&) = delete;

  WorldState* const world;
  std::shared_ptr<WorldState> keeps_world;  ///< until it is closed
  Group group;
  std::vector<NamedOffload> offloads;
  std::unique_ptr<Selector> selector;
  Status ended;                        ///< why later calls end at once; Ok: alive
  std::uint32_t sequence = 0;          ///< collectives so far
  std::uint64_t history = 0;           ///< hash of all of them
  std::uint32_t logged = 0;            ///< its number in the log of calls
  std::unique_ptr<CallHistory> times;  ///< null: nobody wants calls timed
  bool times_wanted = true;            ///< of the calls that begin now
  UserMessages messages;

  Work start(const CollectiveDesc& desc, ConstBuffer in, Buffer out, bool in_place, const CallOptions& options) {
    const auto held = world->hold();
    return start_held(desc, in, out, in_place, options);
  }
  /// Does the same as start(). The caller holds the World's lock.
  Work start_held(const CollectiveDesc& desc, ConstBuffer in, Buffer out, bool in_place, const CallOptions& options,
                  const CallExtras& extras = {});
  /// start() after the checks of call_shape(), for a description that says all but where the buffers are.
  Work start_shaped(CollectiveDesc desc, ConstBuffer in, Buffer out, const CallOptions& options);
  /// Opens a call under the World's lock. `extent`: what the call's fingerprint folds.
  PendingCall& begin(Fingerprint fingerprint, int peer, std::uint64_t extent, const CallOptions& options);
  /// A call that was opened cannot be launched: its caller gets an exception instead of a Work.
  void give_up(PendingCall& op) noexcept;
  CallPartsRef take_parts() { return parts_.take(); }
  /// The plan of a call, made where there is none yet.
  std::shared_ptr<ReadyPlan> ready_plan(const CollectiveDesc& desc);
  /// What the ranks with this color get as Group::identity from the next split.
  std::uint64_t identity_of_child(int color) const noexcept;

  const Group& members() const noexcept override { return group; }
  std::uint32_t last_sequence() const noexcept override { return sequence; }
  const Status& end_reason() const noexcept override { return ended; }
  void end(const Status& reason) noexcept override;
  OpenMessages open_messages(std::uint32_t call) const override {
    return world->executor.open_messages(group.communicator, static_cast<std::uint16_t>(call));
  }
  const void* owner() const noexcept override { return this; }

  /// As the cluster knows them; empty where there is none.
  std::vector<int> numa_nodes_of(const Group& ranks) const;
  /// Every opened transport's chance to offer collectives of its own to a new World. `all`: all its ranks.
  std::vector<NamedOffload> make_offloads(const Exchange& all);
  /// The same for `part`, of `color`, that this communicator is split into; empty where this rank comes into none.
  /// `places`: of its ranks in this communicator, or this rank's.
  std::vector<NamedOffload> split_offloads(const Group& part, int color, std::vector<int> places,
                                           const CallOptions& options);
  /// Takes offloads into use.
  void adopt(std::vector<NamedOffload> made);
  /// Refuses memory of another device than this rank's, and a stream that is being captured.
  void require_own_device(std::string_view call, Place place, StreamRef after) const;
  /// A call that is no collective, but something else that all ranks ask of an offload, about `bytes` of memory.
  Work start_on_offload(std::uint64_t bytes, const std::function<void(Completion&)>& start_it,
                        const CallOptions& options);
  /// An exchange among this communicator's ranks by its own collectives.
  Exchange exchange(const CallOptions& options);
  std::size_t memory_bytes() const;
  /// Gives back what belongs to the World's parts. Nothing is in flight, or nothing moves any more.
  void release() noexcept;

 private:
  struct Close {
    void operator()(CommunicatorState* state) const;
  };

  CommunicatorState(std::shared_ptr<WorldState> world, Group group);
  void launch(PendingCall& op, const CollectiveDesc& desc, ConstBuffer in, Buffer out, bool in_place,
              const CallOptions& options, const CallExtras& extras);
  /// `origin`: the call it is, or is a piece of.
  void launch_on_host(ReadyPlan& plan, ConstBuffer in, Buffer out, bool in_place, const CallPartsRef& parts,
                      PendingCall& origin, std::uint64_t history_of_call, Completion& done);
  StagedCalls& staged_calls();
  std::unique_ptr<ReadyPlan> make_plan(const CollectiveDesc& desc);
  Executable& executable(ReadyPlan& plan, bool in_place);
  /// false: calls are still in flight.
  bool close();
  /// Before a plan goes.
  void retire(ReadyPlan& plan) noexcept;
  void drop_idle_plans();
  PendingCall& begin_next(Fingerprint fingerprint, std::uint64_t extent, const CallOptions& options);

  PlanCache plans_;
  const ReadyPlan* staged_plan_ = nullptr;  // of the last piece on device memory: it may be in flight
  CallPartsPool parts_;
  std::unique_ptr<StagedCalls> staged_calls_;  // from the first call on device memory on
};

}  // namespace sinew
