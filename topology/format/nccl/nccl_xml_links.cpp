#include <algorithm>
#include <array>
#include <map>
#include <set>

#include <fmt/format.h>

#include <sinew/topology/format/nccl/nccl_xml_parts.hpp>
#include <sinew/topology/model/nvlink.hpp>
#include <sinew/topology/model/pci_address.hpp>
#include <sinew/topology/model/xgmi.hpp>

namespace sinew::nccl_xml {
namespace {

constexpr int kMostSideBySide = 1024;

std::string part(std::string_view kind, std::size_t number) { return fmt::format("{}:{}", kind, number); }

/// What <nvlink> and <xgmi> have in common: how many links each GPU has to each other end, before they become links.
class GpuLinks {
 public:
  /// `kind`: NvLink or Xgmi.
  GpuLinks(const Reading& reading, LinkKind kind)
      : reader_(reading.reader),
        gpus_(reading.gpus),
        ignored_(reading.ignored),
        kind_(kind),
        noun_(is_xgmi() ? "XGMI links" : "NVLinks") {
    for (std::size_t g = 0; g < gpus_.size(); ++g) {
      for (const pugi::xml_node link : reader_.children(gpus_[g].node, is_xgmi() ? "xgmi" : "nvlink")) read(g, link);
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
        machine.unseen.push_back({fmt::format("{} between gpu:{} and gpu:{}", noun_, a, b),
                                  fmt::format("one lists {}, the other {}: the more are shown", counts[0], counts[1])});
      }
    }
    for (const auto& [g, links] : to_cpu_) {
      machine.links.push_back(link_of(g, fmt::format("numa:{}", gpus_[g].gpu.numa_node), links));
    }
    machine.unseen.insert(machine.unseen.end(), unseen_.begin(), unseen_.end());
  }

 private:
  enum class Target { Gpu, Switch, Cpu };

  bool is_xgmi() const { return kind_ == LinkKind::Xgmi; }

  Link link_of(std::size_t gpu, std::string to, int links) const {
    return is_xgmi() ? xgmi(part("gpu", gpu), std::move(to), links, xgmi_of(gpus_[gpu].gpu.architecture))
                     : nvlink(part("gpu", gpu), std::move(to), links, nvlink_of_sm(gpus_[gpu].sm));
  }

  std::size_t gpu_at(const std::string& address) const {
    if (address.empty()) return gpus_.size();
    const auto found = std::ranges::find(gpus_, address, [](const FoundGpu& f) { return f.gpu.pci; });
    return static_cast<std::size_t>(found - gpus_.begin());
  }

  /// By PCI class; without one NCCL asks sysfs and otherwise takes it for an NVSwitch. AMD's GPUs have no switches:
  /// RCCL writes an NVSwitch's class where a virtual machine does not show it the other GPU.
  Target target_of(pugi::xml_node link, const std::string& address) const {
    const std::string tclass = reader_.text(link, "tclass");
    if (tclass.empty() && !is_xgmi()) return gpu_at(address) < gpus_.size() ? Target::Gpu : Target::Switch;
    if (tclass.empty() || tclass.starts_with("0x03") || tclass.starts_with("0x12")) return Target::Gpu;
    if (tclass == "0x068001") return Target::Cpu;
    if (tclass == "0x068000") return is_xgmi() ? Target::Gpu : Target::Switch;
    reader_.reject(link, fmt::format("tclass=\"{}\": expected 0x03.... or 0x12.... (a GPU), 0x068000 (an NVSwitch) or "
                                     "0x068001 (a CPU)",
                                     tclass));
  }

  void read(std::size_t gpu, pugi::xml_node link) {
    const std::string target = reader_.required_text(link, "target");
    // Of an NVSwitch that a virtual machine does not show NVML and NCCL write fffffff:ffff:ff or fffffff:ff:ff.0.
    const std::string address = target.starts_with("fffffff:") ? "" : pci_address(target);
    if (address.empty() && !target.starts_with("fffffff:")) {
      reader_.reject(link, fmt::format("target=\"{}\": expected an address such as 0000:3b:00.0", target));
    }
    const int count = static_cast<int>(reader_.required_integer(link, "count", 1, kMostSideBySide));
    switch (target_of(link, address)) {
      case Target::Switch: to_switch_[address][gpu] += count; return;
      case Target::Cpu:
        ignored_.add(reader_.line_of(link), fmt::format("attribute target of <{}>", link.name()),
                     "the bridge of the CPU that the link ends at", true);
        if (gpus_[gpu].gpu.numa_node >= 0) {
          to_cpu_[gpu] += count;
        } else {
          unseen_.push_back({fmt::format("{} of gpu:{} to its CPU", noun_, gpu), "which NUMA node that is: unknown"});
        }
        return;
      case Target::Gpu: break;
    }
    const std::size_t other = gpu_at(address);
    if (other == gpu) reader_.reject(link, fmt::format("target=\"{}\": a GPU has no link to itself", target));
    if (other == gpus_.size()) {
      unseen_.push_back({fmt::format("{} of gpu:{} to {}", noun_, gpu, target), "that GPU is not in the file"});
      return;
    }
    between_[{std::min(gpu, other), std::max(gpu, other)}][gpu < other ? 0 : 1] += count;
    if (const std::string tclass = reader_.text(link, "tclass"); tclass == "0x068000") {
      unseen_.push_back(
          {fmt::format("what the {} of gpu:{} to {} end at", noun_, gpu, target),
           fmt::format("tclass=\"{}\" says a switch, the address is a GPU's: taken for the GPU", tclass)});
    }
  }

  const XmlReader& reader_;
  const std::vector<FoundGpu>& gpus_;
  IgnoredList& ignored_;
  LinkKind kind_;
  const char* noun_;
  std::map<std::string, std::map<std::size_t, int>> to_switch_;
  std::map<std::pair<std::size_t, std::size_t>, std::array<int, 2>> between_;
  std::map<std::size_t, int> to_cpu_;
  std::vector<Unseen> unseen_;
};

/// The links between a Grace CPU and its GPU; `bw` is in megabytes per second and link.
void add_c2c(const Reading& reading) {
  for (std::size_t g = 0; g < reading.gpus.size(); ++g) {
    const FoundGpu& found = reading.gpus[g];
    const auto all = reading.reader.children(found.node, "c2c");
    if (all.empty()) continue;
    if (all.size() > 1) reading.reader.reject(all[1], "listed twice: a GPU has one <c2c>, with a count");
    const auto megabytes = static_cast<double>(reading.reader.required_integer(all[0], "bw", 0, 1'000'000'000));
    const auto count = static_cast<int>(reading.reader.required_integer(all[0], "count", 1, kMostSideBySide));
    if (found.gpu.numa_node < 0) {
      reading.machine.unseen.push_back(
          {fmt::format("C2C links of gpu:{} to its CPU", g),
           fmt::format("{} of {} MB/s; which NUMA node that is: unknown", count, megabytes)});
      continue;
    }
    reading.machine.links.push_back({LinkKind::NvLink, part("gpu", g), fmt::format("numa:{}", found.gpu.numa_node),
                                     Figure::of(megabytes * 1e6 * count, "NCCL, from NVML"),
                                     Figure::unknown("not measured"), count});
  }
}

}  // namespace

void read_gpu_links(const Reading& reading) {
  GpuLinks(reading, LinkKind::NvLink).add_to(reading.machine);
  GpuLinks(reading, LinkKind::Xgmi).add_to(reading.machine);
  add_c2c(reading);
}

void read_pci_links(const Reading& reading) {
  Machine& machine = reading.machine;
  std::map<std::pair<std::string, std::string>, std::set<std::string>> listed_by;
  for (const PciLink& link : reading.pci_links) {
    const std::string written = reading.reader.required_text(link.node, "target");
    const std::string target = pci_address(written);
    if (target.empty() || target == link.from) {
      reading.reader.reject(link.node, fmt::format("target=\"{}\": expected the address of another PCI switch, such as "
                                                   "0000:3b:00.0",
                                                   written));
    }
    if (!listed_by[std::minmax(link.from, target)].insert(link.from).second) {
      reading.reader.reject(link.node, fmt::format("target=\"{}\" is listed twice", written));
    }
  }
  const auto find = [&](const std::string& address) {
    return std::ranges::find(machine.pci_devices, address, &PciDevice::address);
  };
  for (const auto& [ends, by] : listed_by) {
    const auto a = find(ends.first);
    const auto b = find(ends.second);
    const std::string name = fmt::format("link between the PCI switches {} and {}", ends.first, ends.second);
    if (a == machine.pci_devices.end() || b == machine.pci_devices.end()) {
      machine.unseen.push_back({name, "only one of them is in the file"});
    } else if (a->parent == b->address || b->parent == a->address) {
      machine.unseen.push_back({name, "one is right above the other: the link there is shown"});
    } else {
      machine.links.push_back({LinkKind::Pci, "pci:" + a->address, "pci:" + b->address,
                               Figure::unknown("NCCL's XML does not say how fast it is"),
                               Figure::unknown("not measured")});
      if (by.size() == 1) machine.unseen.push_back({name, fmt::format("only {} lists it", *by.begin())});
    }
  }
}

}  // namespace sinew::nccl_xml
