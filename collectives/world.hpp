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

/// The number of threads that use a World at the same time.
/// - Single: one thread at a time. Progress is made only inside wait, test and poll. Calls take no lock.
/// - Multiple: any number of threads, and one lock around the World's engine. Threads that wait make progress. While no
///   thread waits, a thread of the World makes progress. The calls of one communicator must still be in the same order
///   on all its ranks, so threads that run at the same time need a communicator each.
/// Cost: Multiple adds about 10 ns to a call with CallOptions::waits_at_once, and 0.2 us to others (bench/overhead).
enum class Threads : std::uint8_t { Single, Multiple };

class Rendezvous;
class Round;
struct VirtualWorld;

/// The options of a World.
struct WorldOptions {
  Threads threads = Threads::Single;
  Config config = Config::from_environment();
  /// The job's secret, by which connections between processes authenticate. Empty: all ranks must be on one host.
  Bytes secret{};
  /// This rank's accelerator. Below 0: the rank's number among the ranks of its host, modulo the number of devices.
  int device = -1;
  DeviceRuntime* device_runtime = nullptr;  ///< used instead of CUDA's, and outlives the World; null: CUDA's
  bool count_sent = false;                  ///< true: count the bytes that World::sent_bytes() returns
  /// False: the World measures nothing. It reads the costs of its machines from the cache file, or assumes them. Use
  /// this for a second World of the same processes.
  bool measures = true;
  /// Counts the Worlds of a job whose ranks change, from 0. It is equal on all ranks, and a part of the names of trace
  /// files.
  std::uint32_t generation = 0;
  /// For a job that gains and loses ranks (sinew-run --nodes MIN:MAX): the numbers of ranks that the program can run
  /// with, ascending, and equal on all ranks. An example is the multiples of the ranks of a model's replica.
  /// Empty: any number.
  std::vector<int> counts{};
  /// A cluster that the ranks, which are threads, act as if they ran on. Null: the ranks use the real machine.
  std::shared_ptr<const VirtualWorld> virtual_world{};
};

/// The state of a transport on this rank.
struct TransportStatus {
  std::string name{};
  bool ok = false;           ///< true if the transport can be used
  std::string reason{};      ///< if not ok, why; otherwise the NIC by which its messages leave the host
  std::string no_device{};   ///< why messages of device memory go through the host here, although other ranks need not
  std::string offload{};     ///< why it has no offload; empty: it has one
  std::string left_alone{};  ///< why a World uses it only when it is asked for by name; empty: it does not need that
};

/// The processes or threads of one job, and everything that is made for them. A process may have several Worlds. A
/// World installs no signal handler, changes no affinity and raises no SIGPIPE.
/// Thread:   WorldOptions::threads tells it, for the World and all objects that are made from it.
/// Lifetime: it outlives memory of Communicator::allocate.
/// Errors:   every method throws InvalidArgument if the World was moved from, or if this process was forked since.
class SINEW_API World {
 public:
  /// Makes the World of the job to which this process belongs. The launcher is mpirun (Open MPI, MPICH), srun, torchrun
  /// or sinew-run, or the variables RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are set. Without a launcher, or with
  /// SINEW_ALONE=1, the World has one rank.
  /// In a job that gains and loses ranks, a process waits here until it gets a rank.
  /// Errors: InvalidArgument for a wrong variable. Unavailable if the other ranks cannot be reached. Timeout with the
  ///         ranks that did not come.
  static World from_environment(WorldOptions options = {});
  /// Makes a World from any exchange. The exchange is called only inside create(), the same number of times on each
  /// rank.
  /// Errors: those of from_environment(). InvalidArgument, with both values, if versions or the user's rules differ on
  ///         two ranks.
  static World create(Exchange exchange, WorldOptions options = {});
  /// Makes the World of a round of an elastic job, of its ranks or of all its members. Either all of them have it, or
  /// each gets an error: then all ask the rendezvous for the next round.
  /// Errors: PeerLost if a process dies meanwhile. Those of create().
  static World of_ranks(const Round& round, WorldOptions options = {});
  static World of_members(const Round& round, WorldOptions options = {});

  World(World&&) noexcept;
  World& operator=(World&&) noexcept;
  ~World();

  int rank() const;
  int size() const;
  /// The communicator of all ranks.
  /// Lifetime: a reference is valid as long as this World, and only until shrink() is assigned to it.
  Communicator& communicator();

  /// The transports of this rank, and why others cannot be used.
  std::vector<TransportStatus> transports() const;
  /// The machines of the job, and which rank runs where. It is equal on all ranks.
  /// Errors: Unavailable if the machine of a rank could not be discovered, with that rank's reason.
  const Cluster& cluster() const;
  /// The devices of the ranks and their links in one line, equal on all ranks: "NVIDIA H100 80GB HBM3, 18 NVLinks 4 by
  /// NVSwitch". Empty: some rank has no device.
  std::string devices() const;
  /// The facts that the selector uses, as text, with the source of each number.
  std::string facts() const;
  /// Tells where the costs come from by which calls are planned, and why they are in doubt if they are. Such as
  /// "measured on this machine (FILE), in doubt: other programs had the cores while shared memory was measured". It is
  /// also the last line of Plan::explain().
  std::string costs() const;
  /// The bytes of messages that this rank has posted so far for each rank. They include measurements at start-up, but
  /// not the data of offloads. Empty without WorldOptions::count_sent.
  std::vector<std::uint64_t> sent_bytes() const;

  /// Allocates zeroed host memory. If a transport has memory that peers of this host read without copies (shm has),
  /// whole pages of that memory are used. Otherwise it is ordinary memory. Memory::known_as() tells which. For device
  /// memory see Communicator::allocate.
  /// Lifetime: it may outlive the World.
  /// Errors:   System if there is too little memory.
  Memory allocate(std::size_t bytes, bool huge_pages = false);

  /// Makes a communicator of some ranks of this World. Only these ranks call it.
  /// `ranks` lists the World ranks of the members, each once, in their order in the communicator. This rank is one of
  /// them. `name` is the communicator's name in errors, which show its first 47 characters. Both are equal on all
  /// members.
  /// Thread: with Threads::Multiple several threads may make overlapping groups at the same time, in any order, if the
  ///         groups differ in their names or ranks.
  /// Errors: InvalidArgument for bad ranks. Timeout, with a member that did not come within `deadline`; the World goes
  ///         on. If no deadline is given, the configured timeout counts. After a Timeout the members must give the
  ///         group another name, because messages of the first attempt may still wait at a member.
  /// Cost:   two or three exchanges of 4 KiB by messages, and those of the offloads.
  Communicator subgroup(std::span<const int> ranks, std::string_view name, Deadline deadline = {});

  /// Ok if this rank knows of no failure. PeerLost names the first rank that was lost; communicators without that rank
  /// go on. Aborted tells why the World has ended.
  Status status() const;

  /// Ends the generation. All pending and later calls of all ranks end with Aborted and this reason.
  void abort(const std::string& reason);

  /// Makes the next generation of the World after a failure. It has the ranks that are left, in their order. All of
  /// them must call shrink(). Ranks that die meanwhile are left out, too.
  /// The calls of this World end on all ranks. They end with PeerLost if a rank has died, otherwise with Aborted.
  /// Error's rank() is -1 if the lost rank is not in the call's communicator. Afterwards this World may only be
  /// destroyed.
  /// Errors: Timeout with the ranks that did not come, and those of create().
  World shrink();

  /// True if the job could go on with more ranks than this World has, because other processes wait to join it. Always
  /// false if the job cannot gain ranks. One rank asks, and tells the others, so that all of them call grow() after the
  /// same step.
  /// Cost: a round trip to the launcher.
  bool is_change_due();

  /// Makes the next generation of the World with all processes of the job that live: ranks of this World, processes
  /// that wait to join, and spares. All ranks of this World that live must call it, after a failure as well as when
  /// is_change_due(). It has the largest number of ranks that the launcher's limits and WorldOptions::counts permit.
  /// A rank keeps its number if it can. A process that gets no rank waits here for one.
  /// The calls of this World end on all ranks, as in shrink(). Afterwards this World may only be destroyed.
  /// Errors: Unavailable if the launcher does not let the job gain ranks. PeerLost if the launcher has ended. Those of
  ///         create().
  World grow();

  /// A descriptor for the user's own event loop. It is readable when poll() has something to do. Call poll() until it
  /// returns 0 before you sleep on the descriptor.
  int descriptor() const;
  /// Makes progress and returns how many events it handled. Never blocks. With Threads::Multiple a thread of the World
  /// makes progress, and poll() returns 0.
  int poll();

 private:
  struct Inside;
  static std::unique_ptr<Inside> make(const Exchange& base, WorldOptions options);
  static std::unique_ptr<Inside> make_of_rounds(Rendezvous& rendezvous, const WorldOptions& options);
  static std::unique_ptr<Inside> make_of(const Round& round, const Exchange& exchange, WorldOptions options);
  explicit World(std::unique_ptr<Inside> inside) noexcept;
  Inside& inside() const;
  void end_generation();

  std::unique_ptr<Inside> inside_;
};

}  // namespace sinew
