#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/host/cgroups.hpp>

namespace sinew {

/// A number and where it is from. No value: unknown, and `source` says why.
struct Figure {
  std::optional<double> value;
  std::string source;

  static Figure of(double number, std::string from) { return {number, std::move(from)}; }
  static Figure unknown(std::string why) { return {std::nullopt, std::move(why)}; }
  friend bool operator==(const Figure&, const Figure&) = default;
};

/// Cores are named by their index in Machine::cores throughout; NUMA nodes and packages by the kernel's number.
/// -1: belongs to none in particular, or unknown.
struct Core {
  int package = -1;
  int numa_node = -1;
  std::vector<int> cpus;  ///< the kernel's numbers: one per hardware thread
  bool usable = true;     ///< this process may run on it
  friend bool operator==(const Core&, const Core&) = default;
};

struct Package {
  int id = 0;
  std::string model;
  std::vector<int> cores;
  friend bool operator==(const Package&, const Package&) = default;
};

struct NumaNode {
  int id = 0;
  int package = -1;
  std::uint64_t memory_bytes = 0;
  std::vector<int> cores;  ///< empty: memory without cores (CXL, HBM)
  friend bool operator==(const NumaNode&, const NumaNode&) = default;
};

/// Data and unified caches; instruction caches move no messages.
struct Cache {
  int level = 1;
  std::uint64_t bytes = 0;
  std::uint32_t line_bytes = 0;  ///< 0: unknown
  std::vector<int> cores;        ///< that share it
  friend bool operator==(const Cache&, const Cache&) = default;
};

/// Bridge: one port of a switch, or a root port, as the kernel lists them. Switch: a whole one, from sources that do
/// not list its ports.
enum class PciKind : std::uint8_t { Bridge, Network, Display, Accelerator, Storage, Other, Switch };

/// A PCI device that moves data, or a bridge that leads to one.
struct PciDevice {
  std::string address;  ///< "0000:3b:00.0"
  PciKind kind = PciKind::Other;
  std::uint16_t vendor_id = 0;
  std::uint16_t device_id = 0;
  std::string name;    ///< vendor and model where a name table is installed, else empty
  std::string parent;  ///< address of the bridge above; empty: the host's root complex
  int numa_node = -1;
  std::string root;  ///< "0000:3a": domain and bus right below the host bridge that leads to it; empty: unknown
  friend bool operator==(const PciDevice&, const PciDevice&) = default;
};

/// Whether a GPU is cut into instances (MIG).
enum class MigMode : std::uint8_t { Unknown, Off, On };

struct Gpu {
  std::string name;
  std::string pci;  ///< PciDevice::address; empty: unknown
  int numa_node = -1;
  std::string uuid;                ///< "GPU-257d8671-..."; empty: unknown
  std::uint64_t memory_bytes = 0;  ///< 0: unknown
  MigMode mig = MigMode::Unknown;
  int nvlinks = -1;           ///< that are up; -1: unknown, or not NVIDIA's
  int nvlink_generation = 0;  ///< 0: unknown, or none
  int xgmi_links = -1;        ///< to other GPUs, that are up; -1: unknown, or not AMD's
  std::string architecture;   ///< "sm_90", "gfx942"; empty: unknown
  friend bool operator==(const Gpu&, const Gpu&) = default;
};

/// Whether the driver lets one GPU use another's memory, and why not; as `nvidia-smi topo -p2p` tells them apart.
enum class PeerStatus : std::uint8_t {
  Unknown,
  Ok,
  ChipsetNotSupported,
  GpuNotSupported,
  TopologyNotSupported,
  Disabled,  ///< by a setting of the driver
  NotSupported
};

/// What one GPU may do with another's memory; each way has an entry of its own.
struct GpuPeer {
  int from = 0;  ///< index in Machine::gpus
  int to = 0;
  PeerStatus read = PeerStatus::Unknown;
  PeerStatus write = PeerStatus::Unknown;
  PeerStatus nvlink = PeerStatus::Unknown;
  PeerStatus atomics = PeerStatus::Unknown;
  std::string why;  ///< of what is Unknown among them; else empty
  friend bool operator==(const GpuPeer&, const GpuPeer&) = default;
};

/// All NVSwitches of a machine are one fabric: whoever is linked to one reaches all GPUs on any.
struct NvSwitch {
  std::string pci;  ///< its address; empty: it is there, but this machine does not show it (virtual machines)
  friend bool operator==(const NvSwitch&, const NvSwitch&) = default;
};

enum class NicKind : std::uint8_t { Ethernet, InfiniBand, RoCE, Other };

struct NicAddress {
  std::string text;  ///< "10.0.0.2", "fe80::1"
  int prefix = 0;    ///< bits of the subnet
  bool v6 = false;
  friend bool operator==(const NicAddress&, const NicAddress&) = default;
};

/// InfiniBand's states of a port; Active alone carries data.
enum class RdmaState : std::uint8_t { Unknown, Down, Init, Armed, Active };

struct RdmaPort {
  std::string device;  ///< "mlx5_0"; empty: no RDMA
  int number = 0;      ///< from 1
  RdmaState state = RdmaState::Unknown;
  std::string gid;              ///< the first of its table, "fe80:0000:..."; empty: unknown
  std::uint32_t mtu_bytes = 0;  ///< that is active; 0: unknown
  friend bool operator==(const RdmaPort&, const RdmaPort&) = default;
};

/// A network interface, or an RDMA port that has none (then named "mlx5_0:1").
struct Nic {
  std::string name;
  NicKind kind = NicKind::Ethernet;
  bool loopback = false;
  bool up = false;       ///< switched on
  bool running = false;  ///< and has a link
  std::string driver;    ///< the kernel's name for it: "mlx5_core", "veth"; empty: unknown
  std::string hardware_address;
  std::uint32_t mtu_bytes = 0;  ///< 0: unknown
  std::vector<NicAddress> addresses;
  Figure bytes_per_s;
  RdmaPort rdma;
  std::string pci;  ///< PciDevice::address; empty: a virtual interface
  int numa_node = -1;
  friend bool operator==(const Nic&, const Nic&) = default;
};

/// Xgmi: AMD's links between GPUs, and of GPUs to a CPU (Infinity Fabric).
enum class LinkKind : std::uint8_t { Memory, Pci, Network, NvLink, Xgmi };

/// What joins two parts of the machine. Parts are named "numa:0", "package:0", "pci:0000:3b:00.0", "nic:eth0", "gpu:0"
/// and "nvswitch:0" (indices in Machine::gpus and nvswitches), "host" (the root complex) and "network". The figures
/// hold for one direction; a pair of parts has at most one link of a kind.
struct Link {
  LinkKind kind = LinkKind::Pci;
  std::string from;
  std::string to;
  Figure bytes_per_s;
  Figure latency_s;
  int width = 1;  ///< NVLinks or XGMI links side by side, that bytes_per_s counts together
  friend bool operator==(const Link&, const Link&) = default;
};

/// Something that may be there and could not be looked at.
struct Unseen {
  std::string what;
  std::string why;
  friend bool operator==(const Unseen&, const Unseen&) = default;
};

/// Something in the file that a machine was read from, which no other field of Machine holds.
struct Ignored {
  std::string file;
  std::vector<int> lines;  ///< of each place, from 1, ascending
  std::string what;        ///< "attribute gdr of <net>"
  std::string why;         ///< what it means, or that its meaning is unknown
  bool known = false;      ///< false: the reader of the file does not know it
  friend bool operator==(const Ignored&, const Ignored&) = default;
};

/// What one host is made of, as plain data. The whole machine is shown; what this process may use is marked.
struct Machine {
  std::string identity;  ///< equal exactly for processes of one host: host_identity()
  std::string host_name;
  std::string system;        ///< "Linux 6.1.0"
  std::string architecture;  ///< "x86_64"
  std::uint64_t memory_bytes = 0;
  int usable_cores = 1;               ///< by affinity and CPU quota, of the process that looked
  std::optional<CpuQuota> cpu_quota;  ///< of that process's control groups; nullopt: there is none, or not known
  std::vector<Package> packages;
  std::vector<NumaNode> numa_nodes;
  std::vector<Cache> caches;
  std::vector<Core> cores;
  std::vector<PciDevice> pci_devices;
  std::vector<Gpu> gpus;
  std::vector<GpuPeer> gpu_peers;  ///< pairs that the driver was asked about; none: `unseen` says why
  std::vector<NvSwitch> nvswitches;
  std::vector<Nic> nics;
  std::vector<Link> links;
  std::vector<Unseen> unseen;
  std::vector<Ignored> ignored;  ///< none on a machine that was looked at itself
  friend bool operator==(const Machine&, const Machine&) = default;
};

SINEW_API std::string_view name_of(PciKind kind) noexcept;
SINEW_API std::string_view name_of(MigMode mode) noexcept;
SINEW_API std::string_view name_of(PeerStatus status) noexcept;
SINEW_API std::string_view name_of(NicKind kind) noexcept;
SINEW_API std::string_view name_of(RdmaState state) noexcept;
SINEW_API std::string_view name_of(LinkKind kind) noexcept;

}  // namespace sinew
