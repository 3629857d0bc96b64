#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/collectives/communicator.hpp>
#include <sinew/collectives/memory.hpp>
#include <sinew/core/base/exchange.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/call/cost.hpp>
#include <sinew/core/config.hpp>
#include <sinew/core/transport/device.hpp>
#include <sinew/topology/cluster.hpp>

namespace sinew {

/// How many threads use a World at the same time, and who makes progress.
/// Single:   one at a time. Progress is made inside wait, test and poll only. Calls pay for no lock.
/// Multiple: any number. One lock is around the World's engine; whoever waits makes progress, and a thread of the
///           World's own makes progress while nobody waits. Calls of one communicator must still be in the same order
///           on all its ranks, so threads that run at the same time need a communicator each.
///           Cost: about 10 ns for a call with CallOptions::waits_at_once, 0.2 us for others (bench/overhead).
enum class Threads : std::uint8_t { Single, Multiple };

struct VirtualWorld;

struct WorldOptions {
  Threads threads = Threads::Single;
  Config config = Config::from_environment();
  Bytes secret;  ///< of the job; every connection between processes proves it. Empty: only ranks of one host
  /// Which accelerator is this rank's; below 0: its place among the ranks of its host, modulo devices.
  int device = -1;
  DeviceRuntime* device_runtime = nullptr;  ///< another one than CUDA's; outlives the World
  bool count_sent = false;                  ///< keep World::sent_bytes()
  /// Ranks are threads that act as if they were there; null: as they are.
  std::shared_ptr<const VirtualWorld> virtual_world{};
};

/// A transport as this rank sees it: usable, or why not.
struct TransportStatus {
  std::string name;
  bool ok = false;
  std::string reason;      ///< why not, or what its messages leave the host by
  std::string no_device;   ///< why messages of device memory go through the host, where others of its kind need not
  std::string offload;     ///< why it offers no collectives of its own, or empty
  std::string left_alone;  ///< why a World uses it only when asked for it by name, or empty
};

/// The processes (or threads) of one job and everything made for them. Several may live in one process. Installs no
/// signal handler, changes no affinity, raises no SIGPIPE.
/// Thread:   WorldOptions::threads, for the World and all that is made from it.
/// Lifetime: outlives what Communicator::allocate gave.
/// Errors:   InvalidArgument from every method of a World that was moved from, or in a process that forked off since.
class SINEW_API World {
 public:
  /// Under mpirun (Open MPI, MPICH), srun, torchrun or sinew-run, or with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT
  /// set: that job. Alone, or with SINEW_ALONE=1: a world of one.
  /// Errors: InvalidArgument for a wrong variable; Unavailable without a way to the others; Timeout naming the absent.
  static World from_environment(WorldOptions options = {});
  /// From any exchange; it is called only inside create, the same number of times on every rank.
  /// Errors: as above; code versions or user rules that differ between ranks are an error showing both.
  static World create(Exchange exchange, WorldOptions options = {});

  World(World&&) noexcept;
  World& operator=(World&&) noexcept;
  ~World();

  int rank() const;
  int size() const;
  /// All ranks. Lifetime: of this World: a reference ends with it, also where shrink() is assigned to it.
  Communicator& communicator();

  std::vector<TransportStatus> transports() const;
  /// The machines of the job and which rank runs where; equal on all ranks.
  /// Errors: Unavailable where a machine could not be looked at, with that rank's reason.
  const Cluster& cluster() const;
  /// The table that all choices are made from, in words, with where each number is from.
  std::string facts() const;
  /// Bytes of messages that this rank has posted for each rank so far, with what start-up measured; not those that
  /// transports move in collectives of their own. Empty unless WorldOptions::count_sent was asked for.
  std::vector<std::uint64_t> sent_bytes() const;

  /// Host memory of zeros. Where an open transport has memory that peers of this host read without copies (shm has), it
  /// is that, on whole pages; elsewhere ordinary memory: Memory::known_as(). For device memory: Communicator::allocate.
  /// Lifetime: may outlive the World.
  /// Errors:   System where there is not so much.
  Memory allocate(std::size_t bytes, bool huge_pages = false);

  /// A communicator of some ranks of this World, made by these ranks alone: the others neither call this nor notice.
  /// `ranks`: World ranks, each once, this one too; its order is that of the ranks in the communicator. `name`: the
  /// communicator's name in errors, which show its first 47 characters. Both are equal on all members.
  /// Thread: with Threads::Multiple threads may make overlapping groups at the same time, in any order, if these differ
  ///         in their name or ranks.
  /// Errors: InvalidArgument for bad ranks; Timeout naming a member that did not come within `deadline` (not given:
  ///         the configured timeout), after which the World goes on.
  /// Cost:   two or three exchanges of 4 KiB by messages, and what the transports' own collectives need.
  Communicator subgroup(std::span<const int> ranks, std::string_view name, Deadline deadline = {});

  /// Ok while this rank knows of nothing wrong. PeerLost names the rank that the World has lost first: communicators
  /// without it go on. Aborted says why the World has ended.
  Status status() const;

  /// Ends the generation: all pending and later calls, on all ranks, with Aborted and this reason.
  void abort(const std::string& reason);

  /// After a failure: the World of the ranks that are left, in their order, with a new generation. All of them must
  /// call it; who dies meanwhile is left out, too. This World's calls end on all ranks, after a death with PeerLost
  /// (rank() is -1 where the lost rank is in another communicator), else with Aborted, and it may only be destroyed.
  /// Errors: Timeout naming who did not come; as create.
  World shrink();

  /// For the user's own event loop: readable when poll() has something to do. poll() makes progress, never blocks and
  /// returns how many events it handled; call it until it returns 0 before sleeping on the descriptor. With
  /// Threads::Multiple the World's own thread makes progress, and poll() returns 0.
  int descriptor() const;
  int poll();

 private:
  struct Inside;
  static std::unique_ptr<Inside> make(const Exchange& exchange, WorldOptions options, std::uint8_t generation);
  explicit World(std::unique_ptr<Inside> inside) noexcept;
  Inside& inside() const;

  std::unique_ptr<Inside> inside_;
};

}  // namespace sinew
