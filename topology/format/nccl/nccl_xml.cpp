#include <algorithm>
#include <filesystem>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/topology/format/nccl/nccl_xml.hpp>
#include <sinew/topology/format/nccl/nccl_xml_parts.hpp>

namespace sinew {
namespace {

using namespace nccl_xml;

constexpr int kHighestNode = 1023;  // the kernel's limit

/// "00000000,0000ffff" -> {0, ..., 15}: words of 32 bits, the highest first, as in
/// /sys/devices/system/node/node0/cpumap.
std::vector<int> cpus_of(const XmlReader& reader, pugi::xml_node cpu) {
  constexpr std::size_t kDigits = 8;
  constexpr std::size_t kMostWords = 256;
  const std::string mask = reader.text(cpu, "affinity");
  const auto broken = [&] {
    reader.reject(cpu, fmt::format("affinity=\"{}\": expected words of up to 8 hexadecimal digits, such as "
                                   "00000000,0000ffff",
                                   mask));
  };
  std::vector<int> cpus;
  std::size_t end = mask.size();
  for (int first = 0; end > 0; first += 32) {
    const std::size_t comma = mask.rfind(',', end - 1);
    const std::size_t begin = comma == std::string::npos ? 0 : comma + 1;
    const std::string word = mask.substr(begin, end - begin);
    const bool hex = word.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos;
    if (word.empty() || word.size() > kDigits || !hex || static_cast<std::size_t>(first) >= 32 * kMostWords) broken();
    const unsigned long bits = std::stoul(word, nullptr, 16);
    for (int bit = 0; bit < 32; ++bit) {
      if ((bits >> bit & 1) != 0) cpus.push_back(first + bit);
    }
    end = begin == 0 ? 0 : begin - 1;
    if (begin == 1) broken();
  }
  return cpus;
}

class Import {
 public:
  Import(std::string_view text, const std::string& file) : reader_(text, file), ignored_(file) {
    machine_.host_name = std::filesystem::path(file).stem().string();
  }

  Machine read() {
    const pugi::xml_node system = reader_.root();
    if (std::string_view(system.name()) == "graphs") {
      reader_.reject(system,
                     "these are rings and trees of NCCL's (NCCL_GRAPH_DUMP_FILE), not a machine; expected the "
                     "<system> that NCCL_TOPO_DUMP_FILE writes");
    }
    if (std::string_view(system.name()) != "system") reader_.reject(system, "expected NCCL's <system>");
    constexpr int kNccl = 1;
    constexpr int kRccl = 2;
    const long long version = reader_.required_integer(system, "version", kNccl, kRccl);
    machine_.system = version == kNccl ? "NCCL topology" : "RCCL topology";
    if (const std::string name = reader_.text(system, "name"); !name.empty()) machine_.host_name = name;
    for (const pugi::xml_node cpu : reader_.children(system, "cpu")) read_cpu(cpu);
    read_devices(reading_, system, -1);
    finish_gpus();
    read_pci_links(reading_);
    finish_cores();
    machine_.identity = "nccl:" + (host_hash_.empty() ? machine_.host_name : host_hash_);
    machine_.unseen.push_back({"packages, caches and memory", "NCCL's XML does not list them"});
    machine_.unseen.push_back({"host bridges", "NCCL's XML does not list them: PHB may be NODE"});
    list_ignored(reading_);
    machine_.ignored = ignored_.take();
    return std::move(machine_);
  }

 private:
  void read_cpu(pugi::xml_node cpu) {
    const std::string host = reader_.text(cpu, "host_hash");
    if (!nodes_.empty() && host != host_hash_) {
      reader_.reject(
          cpu, fmt::format("host_hash=\"{}\": expected \"{}\" as above: a machine is one host", host, host_hash_));
    }
    host_hash_ = host;
    const int node = static_cast<int>(reader_.required_integer(cpu, "numaid", -1, kHighestNode));
    if (!nodes_.insert(node).second) reader_.reject(cpu, fmt::format("numaid=\"{}\" is listed twice", node));
    const std::string arch = reader_.text(cpu, "arch");
    if (machine_.architecture.empty()) machine_.architecture = arch;
    if (!arch.empty() && arch != machine_.architecture) {
      reader_.reject(cpu, fmt::format("arch=\"{}\": expected \"{}\" as above: a machine has one architecture", arch,
                                      machine_.architecture));
    }
    for (const int number : cpus_of(reader_, cpu)) {
      if (cpus_.insert(number).second) {
        machine_.cores.push_back({-1, node, {number}, true});
      } else {
        twice_ = true;
      }
    }
    if (node >= 0) machine_.numa_nodes.push_back({node, -1, 0, {}});
    read_devices(reading_, cpu, node);
  }

  void finish_cores() {
    std::ranges::sort(machine_.cores, {}, [](const Core& core) { return core.cpus.front(); });
    std::ranges::sort(machine_.numa_nodes, {}, &NumaNode::id);
    for (NumaNode& node : machine_.numa_nodes) {
      for (std::size_t c = 0; c < machine_.cores.size(); ++c) {
        if (machine_.cores[c].numa_node == node.id) node.cores.push_back(static_cast<int>(c));
      }
    }
    machine_.usable_cores = static_cast<int>(machine_.cores.size());
    machine_.unseen.push_back({"cores", "NCCL's XML lists hardware threads only: each is shown as a core"});
    if (twice_)
      machine_.unseen.push_back({"NUMA nodes of some CPUs", "they are in the affinity of two: the first counts"});
  }

  void finish_gpus() {
    std::ranges::stable_sort(gpus_, {}, &FoundGpu::dev);
    std::vector<std::string> numbers;
    for (std::size_t g = 0; g < gpus_.size(); ++g) {
      const FoundGpu& found = gpus_[g];
      if (g > 0 && found.node && found.dev == gpus_[g - 1].dev) {
        reader_.reject(found.node, fmt::format("dev=\"{}\" is listed twice", found.dev));
      }
      if (found.node && found.dev != static_cast<int>(g)) numbers.push_back(fmt::format("gpu:{} is {}", g, found.dev));
      machine_.gpus.push_back(found.gpu);
    }
    if (!numbers.empty()) {
      machine_.unseen.push_back(
          {"GPUs between those of the file", fmt::format("in NCCL's numbers {}", fmt::join(numbers, ", "))});
    }
    read_gpu_links(reading_);
    if (gpus_.size() > 1) {
      machine_.unseen.push_back({"peer access between GPUs", "unknown: NCCL's XML does not list it"});
    }
  }

  XmlReader reader_;
  Machine machine_;
  std::string host_hash_;
  std::set<int> nodes_;
  std::set<int> cpus_;
  bool twice_ = false;
  std::vector<FoundGpu> gpus_;
  std::vector<PciLink> pci_links_;
  IgnoredList ignored_;
  const Reading reading_{reader_, machine_, gpus_, pci_links_, ignored_};
};

}  // namespace

Machine machine_from_nccl_xml(std::string_view text, const std::string& file) { return Import(text, file).read(); }

}  // namespace sinew
