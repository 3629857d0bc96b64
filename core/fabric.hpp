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

namespace sinew {

/// A network interface by the names that libraries know it by. All empty: none.
struct NicName {
  std::string interface;     ///< "ib0"; of an RDMA port that has none "mlx5_0:1"
  std::string rdma_device;   ///< "mlx5_0"; empty: no RDMA
  std::string pci;           ///< "0000:5e:00.0"; empty: unknown, or it is virtual
  std::string why;           ///< "PIX from gpu:0"
  bool one_network = false;  ///< those of all ranks of the job are in one IPv4 network
};

/// What messages leave a host by.
struct NicChoice {
  std::string text;         ///< what was taken, and why; empty: there was nothing to choose
  bool is_nearest = false;  ///< FabricContext::nic, which only ranks that are given the same one share
};

/// What a World tells a module that it opens. All references outlive the fabric.
struct FabricContext {
  int rank = 0;
  int size = 1;
  std::uint8_t generation = 0;
  HostPeers& host;        ///< the ranks of this host: shared memory, process ids, waking
  Bytes secret;           ///< of the job; every connection proves it (HMAC)
  std::string host_id{};  ///< equal text: same host, loopback leads there
  Config config{};
  DeviceRuntime* device_runtime = nullptr;  ///< null: no accelerator
  int device = -1;                          ///< the one of this rank
  NicName nic{};                            ///< the nearest to this rank, one that Config::interface allows
};

/// Rounds of the exchange that the making of an offload may take, at most. All ranks of the parent take part in each,
/// also those that make none: what is left of the rounds is filled up.
inline constexpr int kOffloadRounds = 2;

/// What an offload is made from. `exchange` runs among the group, at most kOffloadRounds times.
struct OffloadContext {
  Group group;
  const Exchange& exchange;
  const Bytes& facts;             ///< what measure() returned on some pair, agreed by all; empty: none
  std::vector<int> numa_nodes{};  ///< of each rank, equal on all; -1: bound to none; empty: nobody knows
};

/// The same where offloads are made in a split: one round more, to agree on the way.
inline constexpr int kSplitRounds = kOffloadRounds + 1;

/// What the offload of a new communicator is made from on every rank of the one that is split.
struct SplitContext {
  const OffloadContext& part;  ///< of this rank's new communicator; its group is empty where the rank comes into none
  int color = 0;               ///< below 0: none
  CollectiveOffload* parent = nullptr;  ///< the module's offload of the communicator that is split; null: it has none
  const Exchange& family;               ///< among all that are split; its rounds and those of `part` count together
  /// Starts what is a call of the communicator that is split: all its ranks make it, `done` fires from the
  /// parent's progress(), and other than Ok it ends that communicator on all of them.
  const std::function<void(const std::function<void(Completion& done)>&)>& as_call;
};

/// One module at work in one World: its rails, and its offload if it has one.
/// Thread: one at a time. Where several threads use the World, its lock is held, but not during rounds of an exchange.
class Fabric {
 public:
  virtual ~Fabric() = default;
  virtual std::span<const std::unique_ptr<Transport>> transports() = 0;
  virtual NicChoice nic_choice() const { return {}; }
  /// Whether messages may lie on this rank's device (Capabilities::device_memory), or why not where others of this
  /// module may; without a reason: it carries host memory only.
  virtual Availability takes_device_memory() const { return Availability::no(""); }
  /// Why this module offers no collectives of its own, or yes.
  virtual Availability has_offload() const { return Availability::no("this transport has no collectives of its own"); }
  virtual std::unique_ptr<CollectiveOffload> make_offload(const OffloadContext&) { return nullptr; }
  /// In a split, on all ranks of the parent, within kSplitRounds: for modules that make one out of another.
  virtual std::unique_ptr<CollectiveOffload> split_offload(const SplitContext& split) {
    return split.part.group.size() > 1 ? make_offload(split.part) : nullptr;
  }
  /// What the offload decides by on this host, for `facts` of later offloads. Collective over the pair's exchange, two
  /// ranks of one host; takes `budget` at most. Empty: nothing to measure. nullopt: not finished within the budget.
  virtual std::optional<Bytes> measure(const OffloadContext& /*pair*/, Duration /*budget*/) { return Bytes{}; }
  /// May `facts`, which an earlier measure() of this or another release returned, still be decided by?
  virtual bool accepts(const Bytes& /*facts*/) const { return true; }
  /// Memory that peers can read without copies; nullopt where this module has none. `huge`: ask for huge pages.
  virtual std::optional<Region> allocate(std::size_t /*bytes*/, bool /*huge*/) { return std::nullopt; }
};

/// A transport or offload as the registry knows it; one object per process, stateless.
class Module {
 public:
  virtual ~Module() = default;
  virtual std::string_view name() const noexcept = 0;
  /// On this machine, now: yes, or the reason.
  virtual Availability available() const = 0;
  /// Purely local; throws Error{Unavailable} with the reason. Peers learn the addresses afterwards.
  virtual std::unique_ptr<Fabric> open(const FabricContext& context) = 0;
};

}  // namespace sinew
