#include <algorithm>
#include <cctype>
#include <set>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include <sinew/topology/model/field_error.hpp>
#include <sinew/topology/model/plausible.hpp>

namespace sinew {
namespace {

/// Of one host: each has some thousand times what the largest has.
constexpr double kFastest = 1e15;  // bytes/s
constexpr double kSlowest = 1;
constexpr double kLongest = 1;            // s
constexpr std::size_t kMostParts = 4096;  // not a page
constexpr std::size_t kMostCores = 1 << 20;

void check_rate(const std::string& path, const Figure& figure) {
  if (!figure.value || (*figure.value >= kSlowest && *figure.value <= kFastest)) return;
  throw FieldError(path + ".value",
                   fmt::format("expected {:g} to {:g} bytes/s, found {:g}", kSlowest, kFastest, *figure.value));
}

void check_latency(const std::string& path, const Figure& figure) {
  if (!figure.value || (*figure.value >= 0 && *figure.value <= kLongest)) return;
  throw FieldError(path + ".value", fmt::format("expected 0 to {:g} s, found {:g}", kLongest, *figure.value));
}

void check_figures(const Machine& machine) {
  for (std::size_t i = 0; i < machine.nics.size(); ++i)
    check_rate(fmt::format("nics[{}].bytes_per_s", i), machine.nics[i].bytes_per_s);
  for (std::size_t i = 0; i < machine.links.size(); ++i) {
    check_rate(fmt::format("links[{}].bytes_per_s", i), machine.links[i].bytes_per_s);
    check_latency(fmt::format("links[{}].latency_s", i), machine.links[i].latency_s);
  }
}

void check_count(std::string_view path, std::size_t found, std::size_t most) {
  if (found > most)
    throw FieldError(std::string(path), fmt::format("expected {} at most on one host, found {}", most, found));
}

void check_counts(const Machine& machine) {
  check_count("cores", machine.cores.size(), kMostCores);
  check_count("packages", machine.packages.size(), kMostParts);
  check_count("numa_nodes", machine.numa_nodes.size(), kMostParts);
  check_count("gpus", machine.gpus.size(), kMostParts);
  check_count("nics", machine.nics.size(), kMostParts);
  if (machine.usable_cores < 0) {
    throw FieldError("usable_cores", fmt::format("expected 0 or more, found {}", machine.usable_cores));
  }
  if (machine.cpu_quota && machine.cpu_quota->cores <= 0) {
    throw FieldError("cpu_quota.cores", fmt::format("expected more than 0, found {:g}", machine.cpu_quota->cores));
  }
}

template <class T, class NameOf>
auto check_unique(const std::vector<T>& parts, std::string_view list, std::string_view field, NameOf name_of_part) {
  std::set<std::decay_t<decltype(name_of_part(parts.front()))>> names;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (names.insert(name_of_part(parts[i])).second) continue;
    throw FieldError(fmt::format("{}[{}].{}", list, i, field),
                     fmt::format("{} is listed twice", name_of_part(parts[i])));
  }
  return names;
}

template <class T>
void check_nodes_of(const std::vector<T>& parts, std::string_view list, const std::set<int>& nodes) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].numa_node < 0 || nodes.contains(parts[i].numa_node)) continue;
    throw FieldError(
        fmt::format("{}[{}].numa_node", list, i),
        fmt::format("expected the id of one of {} \"numa_nodes\", or -1, found {}", nodes.size(), parts[i].numa_node));
  }
}

void check_name(const std::string& path, const std::string& name) {
  const auto control = std::ranges::find_if(name, [](unsigned char c) { return std::iscntrl(c) != 0; });
  if (control == name.end()) return;
  throw FieldError(path, fmt::format("expected a name without control characters, found byte {} in it",
                                     static_cast<int>(static_cast<unsigned char>(*control))));
}

void check_names(const Machine& machine) {
  check_name("host_name", machine.host_name);
  check_name("system", machine.system);
  check_name("architecture", machine.architecture);
  if (machine.cpu_quota) check_name("cpu_quota.where", machine.cpu_quota->where);
  for (std::size_t i = 0; i < machine.packages.size(); ++i)
    check_name(fmt::format("packages[{}].model", i), machine.packages[i].model);
  for (std::size_t i = 0; i < machine.gpus.size(); ++i)
    check_name(fmt::format("gpus[{}].name", i), machine.gpus[i].name);
  for (std::size_t i = 0; i < machine.nics.size(); ++i)
    check_name(fmt::format("nics[{}].name", i), machine.nics[i].name);
  for (std::size_t i = 0; i < machine.ignored.size(); ++i)
    check_name(fmt::format("ignored[{}].what", i), machine.ignored[i].what);
}

/// Instances of a GPU (MIG) share an address and differ in their UUID. Of GPUs without both nothing can be said.
void check_gpus(const std::vector<Gpu>& gpus) {
  std::set<std::string> names;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const std::string name = fmt::format("{} {}", gpus[i].pci, gpus[i].uuid);
    if (name == " " || names.insert(name).second) continue;
    throw FieldError(fmt::format("gpus[{}].pci", i), fmt::format("{} is listed twice", name));
  }
}

}  // namespace

void reject_implausible(const Machine& machine) {
  check_counts(machine);
  check_names(machine);
  check_figures(machine);
  check_unique(machine.packages, "packages", "id", [](const Package& p) { return p.id; });
  check_unique(machine.nics, "nics", "name", [](const Nic& n) { return n.name; });
  check_gpus(machine.gpus);
  const std::set<int> nodes =
      check_unique(machine.numa_nodes, "numa_nodes", "id", [](const NumaNode& n) { return n.id; });
  check_nodes_of(machine.cores, "cores", nodes);
  check_nodes_of(machine.gpus, "gpus", nodes);
  check_nodes_of(machine.nics, "nics", nodes);
  check_nodes_of(machine.pci_devices, "pci_devices", nodes);
}

}  // namespace sinew
