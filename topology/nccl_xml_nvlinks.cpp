#include <algorithm>
#include <array>
#include <map>
#include <set>

#include <fmt/format.h>

#include <sinew/topology/nccl_xml_parts.hpp>
#include <sinew/topology/nvlink.hpp>
#include <sinew/topology/pci_address.hpp>

namespace sinew::nccl_xml {
namespace {

enum class Target { Gpu, Switch, Cpu };

std::string part(std::string_view kind, std::size_t number) { return fmt::format("{}:{}", kind, number); }

/// All NVLinks of the file, before they become links: how many each GPU has to each other end.
class NvLinks {
 public:
  NvLinks(const XmlReader& reader, const std::vector<FoundGpu>& gpus) : reader_(reader), gpus_(gpus) {
    for (std::size_t g = 0; g < gpus.size(); ++g) {
      for (const pugi::xml_node link : gpus[g].node.children("nvlink")) read(g, link);
    }
  }

  void add_to(Machine& machine) const {
    std::map<std::string, std::size_t> number;
    for (const auto& [address, links] : to_switch_) {
      number[address] = machine.nvswitches.size();
      machine.nvswitches.push_back({address});
    }
    for (std::size_t g = 0; g < gpus_.size(); ++g) {
      for (const auto& [address, links] : to_switch_) {
        if (const auto own = links.find(g); own != links.end()) {
          machine.links.push_back(link_of(g, part("nvswitch", number[address]), own->second));
        }
      }
    }
    for (const auto& [ends, counts] : between_) {
      const auto [a, b] = ends;
      machine.links.push_back(link_of(a, part("gpu", b), std::max(counts[0], counts[1])));
      if (counts[0] != counts[1]) {
        machine.unseen.push_back({fmt::format("NVLinks between gpu:{} and gpu:{}", a, b),
                                  fmt::format("one lists {}, the other {}: the more are shown", counts[0], counts[1])});
      }
    }
    for (const auto& [g, links] : to_cpu_) {
      machine.links.push_back(link_of(g, fmt::format("numa:{}", gpus_[g].gpu.numa_node), links));
    }
    for (const auto& [g, address] : absent_) {
      machine.unseen.push_back({fmt::format("NVLinks of gpu:{} to {}", g, address), "that GPU is not in the file"});
    }
  }

 private:
  Link link_of(std::size_t gpu, std::string to, int links) const {
    return nvlink(part("gpu", gpu), std::move(to), links, nvlink_of_sm(gpus_[gpu].sm));
  }

  std::size_t gpu_at(const std::string& address) const {
    const auto found = std::ranges::find(gpus_, address, [](const FoundGpu& f) { return f.gpu.pci; });
    return static_cast<std::size_t>(found - gpus_.begin());
  }

  /// By PCI class; without one NCCL asks sysfs and otherwise takes it for an NVSwitch.
  Target target_of(pugi::xml_node link, const std::string& address) const {
    const std::string tclass = XmlReader::text(link, "tclass");
    if (tclass.empty()) return gpu_at(address) < gpus_.size() ? Target::Gpu : Target::Switch;
    if (tclass.starts_with("0x03")) return Target::Gpu;
    if (tclass == "0x068001") return Target::Cpu;
    if (tclass == "0x068000") return Target::Switch;
    reader_.reject(
        link,
        fmt::format("tclass=\"{}\": expected 0x03.... (a GPU), 0x068000 (an NVSwitch) or 0x068001 (a CPU)", tclass));
  }

  void read(std::size_t gpu, pugi::xml_node link) {
    const std::string target = reader_.required_text(link, "target");
    // Of an NVSwitch that a virtual machine does not show NVML and NCCL write fffffff:ffff:ff or fffffff:ff:ff.0.
    const std::string address = target.starts_with("fffffff:") ? "" : pci_address(target);
    if (address.empty() && !target.starts_with("fffffff:")) {
      reader_.reject(link, fmt::format("target=\"{}\": expected an address such as 0000:3b:00.0", target));
    }
    const int count = static_cast<int>(reader_.required_integer(link, "count", 1, 1024));
    switch (target_of(link, address)) {
      case Target::Switch: to_switch_[address][gpu] += count; return;
      case Target::Cpu:
        if (gpus_[gpu].gpu.numa_node >= 0) to_cpu_[gpu] += count;
        return;
      case Target::Gpu: break;
    }
    const std::size_t other = gpu_at(address);
    if (other == gpu) reader_.reject(link, fmt::format("target=\"{}\": a GPU has no NVLink to itself", target));
    if (other == gpus_.size()) {
      absent_.emplace(gpu, target);
    } else {
      between_[{std::min(gpu, other), std::max(gpu, other)}][gpu < other ? 0 : 1] += count;
    }
  }

  const XmlReader& reader_;
  const std::vector<FoundGpu>& gpus_;
  std::map<std::string, std::map<std::size_t, int>> to_switch_;
  std::map<std::pair<std::size_t, std::size_t>, std::array<int, 2>> between_;
  std::map<std::size_t, int> to_cpu_;
  std::set<std::pair<std::size_t, std::string>> absent_;
};

/// The links between a Grace CPU and its GPU; `bw` is in megabytes per second and link.
void add_c2c(const XmlReader& reader, const std::vector<FoundGpu>& gpus, Machine& machine) {
  for (std::size_t g = 0; g < gpus.size(); ++g) {
    const pugi::xml_node c2c = gpus[g].node.child("c2c");
    if (!c2c || gpus[g].gpu.numa_node < 0) continue;
    const auto megabytes = static_cast<double>(reader.required_integer(c2c, "bw", 0, 1'000'000'000));
    const auto count = static_cast<int>(reader.required_integer(c2c, "count", 1, 1024));
    machine.links.push_back({LinkKind::NvLink, part("gpu", g), fmt::format("numa:{}", gpus[g].gpu.numa_node),
                             Figure::of(megabytes * 1e6 * count, "NCCL, from NVML"), Figure::unknown("not measured"),
                             count});
  }
}

}  // namespace

void read_nvlinks(const XmlReader& reader, const std::vector<FoundGpu>& gpus, Machine& machine) {
  NvLinks(reader, gpus).add_to(machine);
  add_c2c(reader, gpus, machine);
}

}  // namespace sinew::nccl_xml
