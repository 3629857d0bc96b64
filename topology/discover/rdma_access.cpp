#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <set>

#include <fmt/format.h>

#include <sinew/topology/discover/rdma_access.hpp>
#include <sinew/topology/discover/sysfs.hpp>
#include <sinew/topology/discover/verbs.hpp>

namespace sinew {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWhetherAny = "RDMA devices: whether this process can use them";

std::string no_use_of(const std::string& device) {
  return fmt::format("RDMA device {}: this process cannot use it", device);
}

/// "uverbs3": what programs open to use the device; empty: the kernel offers it to none.
std::string node_of(const fs::path& root, const std::string& device) {
  const fs::path all = root / "sys" / "class" / "infiniband_verbs";
  for (const std::string& name : entries(all)) {
    if (read_line(all / name / "ibdev") == device) return name;
  }
  return {};
}

/// What keeps a device that /sys shows from this process; empty: nothing that shows here.
std::string obstacle(const fs::path& root, const std::string& device) {
  const std::string name = node_of(root, device);
  if (name.empty()) {
    return "the kernel offers it to no program: no entry of /sys/class/infiniband_verbs is its own (module ib_uverbs)";
  }
  std::error_code error;
  const fs::path node = root / "dev" / "infiniband" / name;
  return fs::exists(node, error) ? "" : fmt::format("{} is not in this container", node.string());
}

class Reader {
 public:
  Reader(const verbs::Functions& verbs, const fs::path& root, Machine& machine)
      : verbs_(verbs), root_(root), machine_(machine), list_(nullptr, verbs.free_device_list) {
    list_.reset(verbs.device_list(nullptr));
    if (list_ == nullptr) no_list_ = fmt::format("ibv_get_device_list: {}", std::strerror(errno));
    for (verbs::Device* d = list_.get(); d != nullptr && *d != nullptr; ++d) devices_[verbs.device_name(*d)] = *d;
  }

  void read(const std::string& device) {
    const auto listed = devices_.find(device);
    if (listed == devices_.end()) {
      const std::string why = obstacle(root_, device);
      unseen(device, !why.empty()        ? why
                     : !no_list_.empty() ? no_list_
                                         : "libibverbs has no provider for it here (Debian: ibverbs-providers)");
      return;
    }
    const Context context(verbs_.open(listed->second), verbs_.close);
    if (context == nullptr) {
      const std::string failure = fmt::format("ibv_open_device: {}", std::strerror(errno));
      const std::string why = obstacle(root_, device);
      unseen(device, why.empty() ? failure : fmt::format("{}: {}", failure, why));
      return;
    }
    for (Nic& nic : machine_.nics) {
      if (nic.rdma.device == device) read_port(context.get(), nic.rdma);
    }
  }

 private:
  using Context = std::unique_ptr<std::remove_pointer_t<verbs::Context>, int (*)(verbs::Context)>;
  using List = std::unique_ptr<verbs::Device, void (*)(verbs::Device*)>;

  void unseen(const std::string& device, const std::string& why) {
    machine_.unseen.push_back({no_use_of(device), why});
  }

  void read_port(verbs::Context context, RdmaPort& port) {
    constexpr int kLargest = 5;  // of InfiniBand's codes
    verbs::PortAttributes found{};
    const int error = verbs_.query_port(context, static_cast<std::uint8_t>(port.number), &found);
    if (error != 0) {
      machine_.unseen.push_back({fmt::format("MTU of RDMA port {}:{}", port.device, port.number),
                                 fmt::format("ibv_query_port: {}", std::strerror(error))});
    } else if (found.active_mtu >= 1 && found.active_mtu <= kLargest) {
      port.mtu_bytes = 128u << found.active_mtu;
    }
  }

  const verbs::Functions& verbs_;
  const fs::path& root_;
  Machine& machine_;
  List list_;
  std::string no_list_;
  std::map<std::string, verbs::Device> devices_;
};

}  // namespace

void read_rdma_access(const fs::path& root, Machine& machine) {
  std::set<std::string> devices;
  for (const Nic& nic : machine.nics) {
    if (!nic.rdma.device.empty()) devices.insert(nic.rdma.device);
  }
  if (devices.empty()) return;
  const auto loaded = verbs::load();
  if (const auto* why = std::get_if<std::string>(&loaded)) {
    machine.unseen.push_back({kWhetherAny, *why});
    return;
  }
  Reader reader(std::get<verbs::Functions>(loaded), root, machine);
  for (const std::string& device : devices) reader.read(device);
}

std::string rdma_obstacle(const Machine& machine, const std::string& device) {
  for (const Unseen& gap : machine.unseen) {
    if (gap.what == kWhetherAny || gap.what == no_use_of(device)) return gap.why;
  }
  return {};
}

}  // namespace sinew
