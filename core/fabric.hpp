#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/core/base/exchange.hpp>
#include <sinew/core/config.hpp>
#include <sinew/core/host/host_peers.hpp>
#include <sinew/core/offload.hpp>
#include <sinew/core/transport.hpp>
#include <sinew/core/transport/device.hpp>
#include <sinew/core/transport/device_links.hpp>
#include <sinew/core/transport/host_parts.hpp>
#include <sinew/core/transport/peer_memory.hpp>

namespace sinew {

/// A network interface, under each of the names that libraries use for it. All names are empty if there is none.
struct NicName {
  std::string interface {};   ///< such as "ib0"; "mlx5_0:1" for an RDMA port without an interface
  std::string rdma_device{};  ///< such as "mlx5_0"; empty: it has no RDMA
  std::string pci{};          ///< such as "0000:5e:00.0"; empty: unknown, or the interface is virtual
  std::string why{};          ///< why this NIC was taken, such as "PIX from gpu:0"
  bool one_network = false;   ///< true if the NICs of all ranks of the job are in one IPv4 network
};

/// The NIC by which messages leave a host, as a module has chosen it.
struct NicChoice {
  std::string text{};  ///< the NIC and the reason; empty: there was nothing to choose
  /// True if it is FabricContext::nic. Then only ranks with the same nearest NIC share it.
  bool is_nearest = false;
};

/// The arguments by which a World opens a module.
/// Lifetime: all references outlive the fabric.
struct FabricContext {
  int rank = 0;
  int size = 1;
  std::uint8_t generation = 0;
  HostPeers& host;        ///< the ranks of this host: their shared memory, process ids and wake-ups
  Bytes secret{};         ///< the job's secret; both ends of a connection authenticate with it (HMAC)
  std::string host_id{};  ///< ranks with equal ids are on one host and reach each other by loopback
  Config config{};
  DeviceRuntime* device_runtime = nullptr;  ///< null: no accelerator
  int device = -1;                          ///< this rank's device
  NicName nic{};                            ///< the NIC nearest to this rank among those that Config::interface allows
};

/// The most rounds of the exchange that making an offload may take. All ranks of the parent take part in each round.
/// Ranks that make no offload, or need fewer rounds, add empty ones.
inline constexpr int kOffloadRounds = 2;

/// The arguments by which an offload is made.
struct OffloadContext {
  Group group{};
  const Exchange& exchange;  ///< among the group, for kOffloadRounds rounds at most
  const Bytes& facts;        ///< the result of measure() on some pair, equal on all ranks; empty: none
  /// The caches, NUMA nodes and sockets that the ranks are in, from the inside out. It is equal on all ranks. Empty:
  /// unknown.
  std::vector<PartsOfRanks> parts{};
  /// The links of each rank's device, equal on all ranks. Empty: some rank has no device, or nobody knows.
  std::vector<DeviceLinks> devices{};
};

/// The most rounds in a split: one more than kOffloadRounds, in which the ranks agree how offloads are made.
inline constexpr int kSplitRounds = kOffloadRounds + 1;

/// The arguments by which the offload of a new communicator is made, on every rank of the communicator that is split.
struct SplitContext {
  const OffloadContext& part;           ///< for this rank's new communicator; the group is empty if the rank gets none
  int color = 0;                        ///< the rank's color; below 0: the rank gets no communicator
  CollectiveOffload* parent = nullptr;  ///< the module's offload of the communicator that is split; null: it has none
  const Exchange& family;               ///< among all ranks of the split; its rounds count towards kSplitRounds, too
  /// Runs a function as a call of the communicator that is split. All its ranks must do so. `done` fires in the
  /// parent's progress(). Any status but Ok ends that communicator on all ranks.
  const std::function<void(const std::function<void(Completion& done)>&)>& as_call;
};

/// A module that a World has opened. It owns the module's transports, one for each rail, and makes its offloads.
/// Thread: one at a time. If several threads use the World, they hold its lock, but not during rounds of an exchange.
class Fabric {
 public:
  virtual ~Fabric() = default;
  virtual std::span<const std::unique_ptr<Transport>> transports() = 0;
  /// The NIC by which this rank's messages leave the host.
  virtual NicChoice nic_choice() const { return {}; }
  /// Returns yes if messages may lie in memory of this rank's device (Capabilities::device_memory). An empty reason
  /// means that the module supports this on no rank. Any other reason says why this rank cannot.
  virtual Availability takes_device_memory() const { return Availability::no(""); }
  /// Makes a way to read device memory of other processes of this host. Null: the module has none.
  virtual std::unique_ptr<PeerMemory> make_peer_memory() { return nullptr; }
  /// Returns yes if this module has an offload, or the reason why not.
  virtual Availability has_offload() const { return Availability::no("this transport has no collectives of its own"); }
  /// Makes the offload of a group. Null: the group gets none.
  virtual std::unique_ptr<CollectiveOffload> make_offload(const OffloadContext&) { return nullptr; }
  /// Makes the offload of a new communicator in a split. All ranks of the parent call it. A module overrides it
  /// if it derives the new offload from the parent's.
  virtual std::unique_ptr<CollectiveOffload> split_offload(const SplitContext& split) {
    return split.part.group.size() > 1 ? make_offload(split.part) : nullptr;
  }
  /// Measures this host for OffloadContext::facts of later offloads. Two ranks of one host call it together; `pair` is
  /// their group. Returns nullopt if it did not finish within `budget`, and an empty value if there is nothing to
  /// measure.
  virtual std::optional<Bytes> measure(const OffloadContext& /*pair*/, Duration /*budget*/) { return Bytes{}; }
  /// True if `facts` may still be used. An earlier measure() returned them, perhaps in another release of sinew.
  virtual bool accepts(const Bytes& /*facts*/) const { return true; }
  /// Returns the reason why facts of measure() are doubtful, for users. Empty: they are not doubtful.
  virtual std::string doubt_in(const Bytes& /*facts*/) const { return {}; }
  /// Allocates memory that peers of this host read without copies. Returns nullopt if the module has no such memory.
  /// `huge` asks for huge pages.
  virtual std::optional<Region> allocate(std::size_t /*bytes*/, bool /*huge*/) { return std::nullopt; }
};

/// A transport or offload in the registry. There is one object per process, and it has no state.
class Module {
 public:
  virtual ~Module() = default;
  virtual std::string_view name() const noexcept = 0;
  /// Returns yes if the module can be used on this machine now, or the reason why not.
  virtual Availability available() const = 0;
  /// Opens the module for a World. Talks to no other rank: peers learn the addresses later.
  /// Errors: Error{Unavailable} with the reason.
  virtual std::unique_ptr<Fabric> open(const FabricContext& context) = 0;
  /// Tells what this module's offload would do in a group with these devices, by rank, which need not be here. Plans
  /// for virtual clusters use it. Null: the module has no offload for devices, or none for this group.
  virtual std::unique_ptr<OffloadProspects> prospects(std::span<const DeviceLinks> /*devices*/) const {
    return nullptr;
  }
};

}  // namespace sinew
