#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <sinew/collectives/control/control_plane.hpp>
#include <sinew/collectives/execution/executor.hpp>
#include <sinew/collectives/messages/self_link.hpp>
#include <sinew/collectives/metrics/world_metrics.hpp>
#include <sinew/collectives/selection/costs/call_watches.hpp>
#include <sinew/collectives/selection/facts.hpp>
#include <sinew/collectives/trace/call_timer.hpp>
#include <sinew/collectives/transfers/transfers.hpp>
#include <sinew/collectives/world.hpp>
#include <sinew/core/fabric.hpp>
#include <sinew/core/host/host_peers.hpp>
#include <sinew/core/runtime/call_slab.hpp>
#include <sinew/core/runtime/engine.hpp>
#include <sinew/core/runtime/shared_progress.hpp>
#include <sinew/core/system/fork_count.hpp>

namespace sinew {

/// A module that this World has opened.
struct OpenFabric {
  std::string name;
  std::unique_ptr<Fabric> fabric;
};

struct CommunicatorState;

/// The state that a World and its communicators share. Members are destroyed in reverse order: endpoints before
/// fabrics, and these before `host`. Memory into which transports write is destroyed last.
struct WorldState {
  WorldState(const Exchange& exchange, WorldOptions options);
  ~WorldState();

  /// True once a World of this process has settled its costs. Later Worlds do not measure doubtful costs again.
  SINEW_API static std::atomic<bool>& any_has_costs() noexcept;

  int rank;
  int size;
  WorldOptions options;
  std::uint32_t generation;  ///< WorldOptions::generation
  /// The generation in tags, which have 8 bits for it. Each World has endpoints of its own, and a message that was sent
  /// to an endpoint of another World never arrives here. So it does no harm that the 8 bits repeat after 256
  /// generations.
  std::uint8_t tag_generation() const noexcept { return static_cast<std::uint8_t>(generation); }
  std::string host_id;
  std::vector<std::unique_ptr<CommunicatorState>> left_behind;  ///< closed communicators with calls that have not ended
  std::vector<std::unique_ptr<Completion>> closing;             ///< of endpoints to lost ranks
  Executor executor;
  std::unique_ptr<HostPeers> host;
  std::unique_ptr<DeviceRuntime> own_device_runtime;
  DeviceRuntime* device_runtime = nullptr;  ///< null: there is no accelerator, and `no_device` says why
  std::string no_device;
  int device = -1;                       ///< this rank's device
  std::unique_ptr<Transfers> transfers;  ///< null: no rank has a device
  std::unique_ptr<Engine> engine;
  std::unique_ptr<CallSlab, CallSlab::Retire> calls;
  std::vector<std::uint64_t> sent_bytes;  ///< to each rank; empty without WorldOptions::count_sent
  std::vector<OpenFabric> fabrics;
  std::vector<TransportStatus> statuses;
  Facts facts;
  std::shared_ptr<const Cluster> cluster;
  std::string no_cluster;                       ///< why `cluster` is null
  std::vector<std::vector<Address>> addresses;  ///< [rank][transport]
  std::unique_ptr<ControlPlane> control;
  std::unique_ptr<WorldMetrics> metrics;  ///< null: this rank shows no metrics
  std::unique_ptr<CallTimer> timer;       ///< null: calls are not timed
  std::unique_ptr<CallWatches> watches;   ///< null on a virtual cluster
  std::vector<std::uint64_t> free_ids;    ///< bit i: communicator ids 2i and 2i+1 are free
  /// The id of the communicator of all ranks in which the members of a subgroup find each other. No other communicator
  /// gets this id.
  static constexpr std::uint16_t kBootstrapId = 65534;

  /// A fork's child shares its parent's connections and must use none of them.
  /// Errors: InvalidArgument if this process was forked since the World was made.
  void require_own_process() const {
    if (is_forked()) [[unlikely]]
      reject_fork();
  }
  bool is_forked() const noexcept { return fork_.in_child(); }
  /// The connection to a rank over a transport, made on first use.
  Endpoint& endpoint(int world_rank, const std::string& transport);
  /// This rank's connection to itself, made on first use.
  SelfLink& self_link();
  /// Closes the endpoints to a lost rank. Operations on them end when the rank reads their buffers no more.
  void close_endpoints(int world_rank);
  /// Ends the endpoints to a rank at the next progress, whatever the rank does. They cannot be used or made again.
  void end_endpoints(int world_rank);
  /// The time in milliseconds for which the end of a communicator waits for a more precise reason. A call may fail
  /// because of a dead rank shortly before the control plane learns which rank has died.
  static constexpr int kAboutToBeKnownMs = 50;
  /// The status that calls end with when this rank aborts: "`beginning`: `reason`", where `beginning` names this rank.
  /// If `reason` is the text of an earlier abort, the status is that abort's, with the rank that first aborted.
  /// Thread: the caller holds the lock.
  Status abort_status(const std::string& beginning, const std::string& reason) const;
  /// Ends the World on all ranks with abort_status(). Does nothing if the World has already ended.
  void abort(const std::string& beginning, const std::string& reason, Code code = Code::Aborted);
  /// Holds the lock that Threads::Multiple needs around all state that progress changes.
  SharedProgress::Hold hold() noexcept { return SharedProgress::Hold(calls->shared()); }
  /// Wraps an exchange for a caller that holds the lock: each round releases the lock. Lifetime: that of `exchange`.
  Exchange with_lock_free(const Exchange& exchange) {
    return {exchange.rank, exchange.size, [this, &exchange](const Bytes& mine) {
              const SharedProgress::Release free(calls->shared());
              return exchange.all_gather(mine);
            }};
  }
  /// Calls `change` under the lock. Then wakes the thread that makes progress, so that it notices the change.
  template <class F>
  void locked(F&& change) {
    const auto held = hold();
    change();
    posted(false);
  }
  /// Tells the engine that a call has been started. The caller holds the lock.
  void posted(bool waits_at_once) noexcept {
    if (SharedProgress* shared = calls->shared()) [[unlikely]]
      shared->posted(waits_at_once);
  }
  /// Returns the NUMA node of each of these ranks. The list is empty if the cluster is unknown.
  std::vector<int> numa_nodes_of(std::span<const int> world_ranks) const;
  /// Returns the caches, NUMA nodes and sockets that these ranks of one host are in. Empty: unknown.
  std::vector<PartsOfRanks> parts_of(std::span<const int> world_ranks) const;
  /// Frees a communicator id of choose_communicator_id(). Takes the lock.
  void give_id_back(std::uint16_t id) noexcept;
  /// Returns the fabric of a transport that this World has opened.
  Fabric& fabric(const std::string& transport);
  Transport* rail(const std::string& transport) noexcept;

 private:
  [[noreturn]] void reject_fork() const;
  void choose_device();
  void warn_of_shared_device() const;
  void open_fabrics();
  void open_fabric(Module& module, const NicName& nic, TransportStatus& status);
  void find_cluster(const Exchange& exchange);
  std::string bus_id_of_device() const;
  DeviceLinks links_of_device() const;
  NicName nearest_nic() const;
  bool asks_for(const std::string& transport) const;
  void leave_out(TransportStatus& status, std::string reason) const;
  void open_control(const Exchange& exchange);
  void open_timer(const Exchange& exchange);
  void open_transfers();
  std::string explain(const PendingCall& call);
  void call_ended(PendingCall& call);
  std::unique_ptr<CallLog> open_log(const ClockDifference& clock) const;

  ForkMark fork_;
  std::vector<std::vector<std::unique_ptr<Endpoint>>> endpoints_;  // [rank][transport]
  std::unique_ptr<SelfLink> self_link_;
};

}  // namespace sinew
