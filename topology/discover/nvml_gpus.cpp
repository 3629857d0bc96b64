#include <algorithm>
#include <array>
#include <map>

#include <fmt/format.h>

#include <sinew/topology/discover/nvml.hpp>
#include <sinew/topology/discover/nvml_gpus.hpp>
#include <sinew/topology/discover/nvml_peers.hpp>
#include <sinew/topology/model/nvlink.hpp>
#include <sinew/topology/model/pci_address.hpp>

namespace sinew {
namespace {

constexpr unsigned kMostNvLinks = 64;  ///< of a GPU; NVML refuses those it does not have

/// NVLinks side by side to one other end.
struct Bundle {
  int links = 0;
  double bytes_per_s = 0;  ///< of those whose speed is known
  bool speed_known = true;
  bool to_gpu = false;  ///< NVML says so, whether that GPU is shown or not
};

class Reader {
 public:
  Reader(const nvml::Library& nvml, Machine& machine) : nvml_(nvml), machine_(machine) {}

  void read() {
    unsigned count = 0;
    if (!ok(nvml_.device_count(&count), "GPUs", "nvmlDeviceGetCount_v2")) return;
    for (unsigned i = 0; i < count; ++i) read_gpu(i);
    for (const auto& [gpu, bundles] : bundles_) add_links(gpu, bundles);
    read_gpu_peers(nvml_, gpus_, machine_);
  }

 private:
  /// Notes what is missing for which reason.
  bool ok(nvml::Result result, const std::string& what, std::string_view call) {
    if (result == nvml::kSuccess) return true;
    machine_.unseen.push_back({what, fmt::format("{}: {}", call, nvml_.text_of(result))});
    return false;
  }

  std::size_t gpu_at(const std::string& pci) {
    const auto known = std::ranges::find(machine_.gpus, pci, &Gpu::pci);
    const auto index = static_cast<std::size_t>(known - machine_.gpus.begin());
    if (known == machine_.gpus.end()) machine_.gpus.push_back({.pci = pci});
    return index;
  }

  void read_gpu(unsigned number) {
    const std::string what = fmt::format("GPU {} of NVML", number);
    nvml::Device device = nullptr;
    nvml::PciInfo pci{};
    if (!ok(nvml_.device(number, &device), what, "nvmlDeviceGetHandleByIndex_v2")) return;
    if (!ok(nvml_.pci_info(device, &pci), what, "nvmlDeviceGetPciInfo_v3")) return;
    const std::string address = pci_address(pci.bus_id);
    if (address.empty()) {
      machine_.unseen.push_back({what, fmt::format("'{}' is no PCI address", pci.bus_id)});
      return;
    }
    const std::size_t index = gpu_at(address);
    Gpu gpu = machine_.gpus[index];
    std::array<char, 96> text{};  // NVML's longest name and UUID
    if (ok(nvml_.name(device, text.data(), text.size()), what + ": name", "nvmlDeviceGetName")) gpu.name = text.data();
    if (ok(nvml_.uuid(device, text.data(), text.size()), what + ": UUID", "nvmlDeviceGetUUID")) gpu.uuid = text.data();
    nvml::Memory memory{};
    if (ok(nvml_.memory(device, &memory), what + ": memory", "nvmlDeviceGetMemoryInfo"))
      gpu.memory_bytes = memory.total;
    read_mig(device, what, gpu);
    read_nvlinks(device, index, gpu);
    machine_.gpus[index] = std::move(gpu);
    gpus_.push_back({device, static_cast<int>(index)});
  }

  void read_mig(nvml::Device device, const std::string& what, Gpu& gpu) {
    unsigned current = 0;
    unsigned pending = 0;
    const nvml::Result result = nvml_.mig_mode(device, &current, &pending);
    if (result == nvml::kNotSupported) {
      gpu.mig = MigMode::Off;
    } else if (ok(result, what + ": MIG", "nvmlDeviceGetMigMode")) {
      gpu.mig = current == 0 ? MigMode::Off : MigMode::On;
    }
  }

  void read_nvlinks(nvml::Device device, std::size_t index, Gpu& gpu) {
    gpu.nvlinks = 0;
    for (unsigned link = 0; link < kMostNvLinks; ++link) {
      unsigned active = 0;
      if (nvml_.nvlink_state(device, link, &active) != nvml::kSuccess || active == 0) continue;
      ++gpu.nvlinks;
      nvml::PciInfo remote{};
      const std::string what = fmt::format("other end of NVLink {} of gpu:{}", link, index);
      if (!ok(nvml_.nvlink_remote(device, link, &remote), what, "nvmlDeviceGetNvLinkRemotePciInfo_v2")) continue;
      add_to(bundles_[index][other_end(remote.bus_id)], device, link);
    }
    int major = 0;
    int minor = 0;
    if (gpu.nvlinks > 0 && nvml_.compute_capability(device, &major, &minor) == nvml::kSuccess) {
      rates_[index] = nvlink_of_sm(10 * major + minor);
      gpu.nvlink_generation = rates_[index].generation;
    }
  }

  /// A virtual machine does not show its NVSwitches: NVML then says FFFFFFFF:FFFF:FF.
  static std::string other_end(std::string_view bus_id) {
    const std::string address = pci_address(bus_id);
    return address.starts_with("ffffffff:") ? "" : address;
  }

  void add_to(Bundle& bundle, nvml::Device device, unsigned link) const {
    nvml::FieldValue speed{};
    speed.field = nvml::kFieldNvLinkSpeed;
    speed.scope = link;
    const bool known = nvml_.field_values(device, 1, &speed) == nvml::kSuccess && speed.result == nvml::kSuccess &&
                       speed.value.number > 0;
    int type = nvml::kRemoteUnknown;
    if (nvml_.nvlink_remote_type != nullptr && nvml_.nvlink_remote_type(device, link, &type) == nvml::kSuccess) {
      bundle.to_gpu = type == nvml::kRemoteGpu;
    }
    ++bundle.links;
    bundle.speed_known = bundle.speed_known && known;
    if (known) bundle.bytes_per_s += 1e6 * speed.value.number;
  }

  std::string switch_at(const std::string& address) {
    const auto known = std::ranges::find(machine_.nvswitches, address, &NvSwitch::pci);
    const auto index = known - machine_.nvswitches.begin();
    if (known == machine_.nvswitches.end()) machine_.nvswitches.push_back({address});
    return fmt::format("nvswitch:{}", index);
  }

  /// Between two GPUs both list the same links: those of the first count.
  void add_links(std::size_t index, const std::map<std::string, Bundle>& bundles) {
    for (const auto& [address, bundle] : bundles) {
      const auto gpu = std::ranges::find(machine_.gpus, address, &Gpu::pci);
      const auto other = static_cast<std::size_t>(gpu - machine_.gpus.begin());
      if (gpu != machine_.gpus.end() && other < index && bundles_.contains(other)) continue;
      if (gpu == machine_.gpus.end() && bundle.to_gpu) {
        machine_.unseen.push_back(
            {fmt::format("NVLinks of gpu:{} to {}", index, address), "that GPU is not shown here"});
        continue;
      }
      const std::string to = gpu == machine_.gpus.end() ? switch_at(address) : fmt::format("gpu:{}", other);
      Link link = nvlink(fmt::format("gpu:{}", index), to, bundle.links, rates_[index]);
      if (bundle.speed_known) link.bytes_per_s = Figure::of(bundle.bytes_per_s, "NVML: speed of each NVLink");
      machine_.links.push_back(std::move(link));
    }
  }

  const nvml::Library& nvml_;
  Machine& machine_;
  std::vector<nvml::KnownGpu> gpus_;
  std::map<std::size_t, std::map<std::string, Bundle>> bundles_;  ///< by GPU and address of the other end
  std::map<std::size_t, NvLinkRate> rates_;
};

bool has_nvidia_gpu(const Machine& machine) {
  constexpr std::uint16_t kNvidia = 0x10de;
  return std::ranges::any_of(machine.gpus, [&](const Gpu& gpu) {
    const auto device = std::ranges::find(machine.pci_devices, gpu.pci, &PciDevice::address);
    return device != machine.pci_devices.end() && device->vendor_id == kNvidia;
  });
}

}  // namespace

void read_nvml(Machine& machine) {
  const auto loaded = nvml::load();
  if (const auto* why = std::get_if<std::string>(&loaded)) {
    if (has_nvidia_gpu(machine))
      machine.unseen.push_back({"NVLinks, peer access, memory, UUID and MIG of the GPUs", *why});
    return;
  }
  Reader(std::get<nvml::Library>(loaded), machine).read();
}

}  // namespace sinew
