#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/host/cgroups.hpp>

namespace sinew {

/// A number with its source. If there is no value, the number is unknown and `source` says why.
struct Figure {
  std::optional<double> value;
  std::string source;

  static Figure of(double number, std::string from) { return {number, std::move(from)}; }
  static Figure unknown(std::string why) { return {std::nullopt, std::move(why)}; }
  friend bool operator==(const Figure&, const Figure&) = default;
};

/// A core. Other parts name cores by their index in Machine::cores. NUMA nodes and packages have the kernel's numbers.
/// The number -1 means that the part belongs to no single one, or that it is unknown.
struct Core {
  int package = -1;
  int numa_node = -1;
  std::vector<int> cpus;  ///< the kernel's numbers, one for each hardware thread
  bool usable = true;     ///< true if this process may run on it
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

/// A cache for data. Instruction caches are left out, since messages do not use them.
struct Cache {
  int level = 1;
  std::uint64_t bytes = 0;
  std::uint32_t line_bytes = 0;  ///< 0: unknown
  std::vector<int> cores;        ///< the cores that share it
  friend bool operator==(const Cache&, const Cache&) = default;
};

/// The kind of a PCI device. A Bridge is one port of a switch, or a root port, as the kernel lists them. A Switch is a
/// whole switch, from sources that do not list its ports.
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

/// Tells if a GPU is divided into instances (MIG).
enum class MigMode : std::uint8_t { Unknown, Off, On };

struct Gpu {
  std::string name;
  std::string pci;  ///< PciDevice::address; empty: unknown
  int numa_node = -1;
  std::string uuid;                ///< "GPU-257d8671-..."; empty: unknown
  std::uint64_t memory_bytes = 0;  ///< 0: unknown
  MigMode mig = MigMode::Unknown;
  int nvlinks = -1;           ///< number of links that are up; -1: unknown, or not NVIDIA's
  int nvlink_generation = 0;  ///< 0: unknown, or none
  int xgmi_links = -1;        ///< number of links to other GPUs that are up; -1: unknown, or not AMD's
  std::string architecture;   ///< "sm_90", "gfx942"; empty: unknown
  friend bool operator==(const Gpu&, const Gpu&) = default;
};

/// Tells if the driver lets one GPU use another's memory, and if not, why. The values are those of `nvidia-smi topo
/// -p2p`.
enum class PeerStatus : std::uint8_t {
  Unknown,
  Ok,
  ChipsetNotSupported,
  GpuNotSupported,
  TopologyNotSupported,
  Disabled,  ///< by a setting of the driver
  NotSupported
};

/// The access of one GPU to another's memory. Each direction has an entry of its own.
struct GpuPeer {
  int from = 0;  ///< index in Machine::gpus
  int to = 0;
  PeerStatus read = PeerStatus::Unknown;
  PeerStatus write = PeerStatus::Unknown;
  PeerStatus nvlink = PeerStatus::Unknown;
  PeerStatus atomics = PeerStatus::Unknown;
  std::string why;  ///< the reason if a member is Unknown, otherwise empty
  friend bool operator==(const GpuPeer&, const GpuPeer&) = default;
};

/// An NVSwitch. All NVSwitches of a machine are one fabric: a GPU that is linked to one reaches the GPUs of all others.
struct NvSwitch {
  std::string pci;  ///< its address; empty: a virtual machine does not show the switch
  friend bool operator==(const NvSwitch&, const NvSwitch&) = default;
};

enum class NicKind : std::uint8_t { Ethernet, InfiniBand, RoCE, Other };

struct NicAddress {
  std::string text;  ///< "10.0.0.2", "fe80::1"
  int prefix = 0;    ///< bits of the subnet
  bool v6 = false;
  friend bool operator==(const NicAddress&, const NicAddress&) = default;
};

/// InfiniBand's states of a port. Only an Active port carries data.
enum class RdmaState : std::uint8_t { Unknown, Down, Init, Armed, Active };

struct RdmaPort {
  std::string device;  ///< "mlx5_0"; empty: no RDMA
  int number = 0;      ///< from 1
  RdmaState state = RdmaState::Unknown;
  std::string gid;              ///< the first entry of its table, "fe80:0000:..."; empty: unknown
  std::uint32_t mtu_bytes = 0;  ///< the active MTU; 0: unknown
  friend bool operator==(const RdmaPort&, const RdmaPort&) = default;
};

/// A network interface, or an RDMA port without one, which is then named like "mlx5_0:1".
struct Nic {
  std::string name;
  NicKind kind = NicKind::Ethernet;
  bool loopback = false;
  bool up = false;       ///< switched on
  bool running = false;  ///< switched on, and has a link
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

/// The kind of a link. Xgmi is AMD's Infinity Fabric, between GPUs and from a GPU to a CPU.
enum class LinkKind : std::uint8_t { Memory, Pci, Network, NvLink, Xgmi };

/// A link between two parts of the machine. The names of parts are "numa:0", "package:0", "pci:0000:3b:00.0",
/// "nic:eth0", "gpu:0" and "nvswitch:0" (indices in Machine::gpus and nvswitches), "host" (the root complex) and
/// "network". The figures are of one direction. Two parts have at most one link of each kind.
struct Link {
  LinkKind kind = LinkKind::Pci;
  std::string from;
  std::string to;
  Figure bytes_per_s;
  Figure latency_s;
  int width = 1;  ///< number of parallel NVLinks or XGMI links; bytes_per_s is their sum
  friend bool operator==(const Link&, const Link&) = default;
};

/// Something that may be there, but could not be discovered.
struct Unseen {
  std::string what;
  std::string why;
  friend bool operator==(const Unseen&, const Unseen&) = default;
};

/// Something in the file of a machine that no other field of Machine holds.
struct Ignored {
  std::string file;
  std::vector<int> lines;  ///< the lines where it occurs, ascending, from 1
  std::string what;        ///< such as "attribute gdr of <net>"
  std::string why;         ///< its meaning, or that the meaning is unknown
  bool known = false;      ///< false: the reader of the file does not know it
  friend bool operator==(const Ignored&, const Ignored&) = default;
};

/// The parts of one host, as plain data. It holds the whole machine, and marks the parts that this process may use.
struct Machine {
  std::string identity;  ///< host_identity(): equal for two processes if, and only if, they are on one host
  std::string host_name;
  std::string system;        ///< "Linux 6.1.0"
  std::string architecture;  ///< "x86_64"
  std::uint64_t memory_bytes = 0;
  int usable_cores = 1;               ///< the cores that the discovering process may use, by affinity and CPU quota
  std::optional<CpuQuota> cpu_quota;  ///< the quota of that process's control groups; nullopt: none, or unknown
  std::vector<Package> packages;
  std::vector<NumaNode> numa_nodes;
  std::vector<Cache> caches;
  std::vector<Core> cores;
  std::vector<PciDevice> pci_devices;
  std::vector<Gpu> gpus;
  std::vector<GpuPeer> gpu_peers;  ///< the pairs that the driver was asked about; empty: `unseen` says why
  std::vector<NvSwitch> nvswitches;
  std::vector<Nic> nics;
  std::vector<Link> links;
  std::vector<Unseen> unseen;
  std::vector<Ignored> ignored;  ///< empty if the machine was not read from a file
  friend bool operator==(const Machine&, const Machine&) = default;
};

SINEW_API std::string_view name_of(PciKind kind) noexcept;
SINEW_API std::string_view name_of(MigMode mode) noexcept;
SINEW_API std::string_view name_of(PeerStatus status) noexcept;
SINEW_API std::string_view name_of(NicKind kind) noexcept;
SINEW_API std::string_view name_of(RdmaState state) noexcept;
SINEW_API std::string_view name_of(LinkKind kind) noexcept;

}  // namespace sinew
