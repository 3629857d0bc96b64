#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/core/host/cpu.hpp>
#include <sinew/topology/discover/pci.hpp>
#include <sinew/topology/discover/processors.hpp>

namespace sinew {
namespace {

/// Plugins that would start accelerator libraries in every process, and libpciaccess, which leaks: sysfs shows the same
/// devices without them.
constexpr const char* kUnwantedComponents[] = {"opencl", "cuda", "nvml", "rsmi", "levelzero", "gl", "pci"};

/// Until the end of this object hwloc looks for /sys and /proc below a folder.
class RootOfHwloc {
 public:
  explicit RootOfHwloc(const std::filesystem::path& root) { ::setenv(kVariable, root.c_str(), 1); }
  ~RootOfHwloc() { ::unsetenv(kVariable); }
  RootOfHwloc(const RootOfHwloc&) = delete;
  RootOfHwloc& operator=(const RootOfHwloc&) = delete;

 private:
  static constexpr const char* kVariable = "HWLOC_FSROOT";
};

HwlocTopology load(const std::filesystem::path& root) {
  std::optional<RootOfHwloc> elsewhere;
  if (root != "/") elsewhere.emplace(root);
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) throw_errno("hwloc_topology_init");
  HwlocTopology topology(raw, &hwloc_topology_destroy);
  for (const char* name : kUnwantedComponents) {
    hwloc_topology_set_components(raw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, name);
  }
  if (elsewhere) hwloc_topology_set_components(raw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");  // asks this CPU
  hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED | HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING);
  hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  if (hwloc_topology_load(raw) != 0) throw_errno("hwloc cannot read this machine's processors");
  return topology;
}

using CpuSet = std::unique_ptr<hwloc_bitmap_s, decltype(&hwloc_bitmap_free)>;

/// CPUs that cgroup and affinity leave to this process; of a described machine, all that are allowed there.
CpuSet usable_cpus(hwloc_topology_t topology) {
  CpuSet cpus(hwloc_bitmap_dup(hwloc_topology_get_allowed_cpuset(topology)), &hwloc_bitmap_free);
  if (!hwloc_topology_is_thissystem(topology)) return cpus;
  // Not hwloc_get_cpubind: where a sandbox refuses sched_getaffinity, hwloc 2.9 tries ever larger masks and never ends.
  const CpuSet bound(hwloc_bitmap_alloc(), &hwloc_bitmap_free);
  for (const int cpu : affinity_cpus()) hwloc_bitmap_set(bound.get(), static_cast<unsigned>(cpu));
  hwloc_bitmap_and(cpus.get(), cpus.get(), bound.get());
  return cpus;
}

std::vector<int> members(hwloc_const_bitmap_t set) {
  std::vector<int> numbers;
  for (int n = hwloc_bitmap_first(set); n >= 0; n = hwloc_bitmap_next(set, n)) numbers.push_back(n);
  return numbers;
}

int package_of(hwloc_topology_t topology, hwloc_obj_t object) {
  const hwloc_obj_t package = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_PACKAGE, object);
  return package == nullptr ? -1 : static_cast<int>(package->os_index);
}

void read_cores(hwloc_topology_t topology, std::vector<hwloc_obj_t>& objects, Machine& machine) {
  objects = objects_of(topology, HWLOC_OBJ_CORE);
  if (objects.empty()) {
    objects = objects_of(topology, HWLOC_OBJ_PU);
    machine.unseen.push_back({"cores", "the kernel lists hardware threads only: each is shown as a core"});
  }
  const CpuSet usable = usable_cpus(topology);
  for (const hwloc_obj_t object : objects) {
    Core core;
    core.package = package_of(topology, object);
    core.numa_node = only_node(object);
    core.cpus = members(object->cpuset);
    core.usable = hwloc_bitmap_intersects(object->cpuset, usable.get()) != 0;
    machine.cores.push_back(std::move(core));
  }
}

/// Indices of the cores within an object.
std::vector<int> cores_in(const std::vector<hwloc_obj_t>& cores, hwloc_obj_t object) {
  std::vector<int> inside;
  for (std::size_t i = 0; i < cores.size(); ++i) {
    if (hwloc_bitmap_isincluded(cores[i]->cpuset, object->cpuset)) inside.push_back(static_cast<int>(i));
  }
  return inside;
}

void read_caches(hwloc_topology_t topology, const std::vector<hwloc_obj_t>& cores, Machine& machine) {
  for (int type = HWLOC_OBJ_L5CACHE; type >= HWLOC_OBJ_L1CACHE; --type) {
    for (const hwloc_obj_t object : objects_of(topology, static_cast<hwloc_obj_type_t>(type))) {
      const auto& cache = object->attr->cache;
      machine.caches.push_back({static_cast<int>(cache.depth), cache.size, cache.linesize, cores_in(cores, object)});
    }
  }
  if (machine.caches.empty()) machine.unseen.push_back({"caches", "neither kernel nor processor describes them here"});
}

Figure memory_figure(hwloc_topology_t topology, hwloc_memattr_id_t attribute, hwloc_obj_t node, double unit) {
  hwloc_location from{};
  from.type = HWLOC_LOCATION_TYPE_CPUSET;
  from.location.cpuset = node->cpuset;
  hwloc_uint64_t value = 0;
  if (hwloc_memattr_get_value(topology, attribute, node, &from, 0, &value) != 0 || value == 0) {
    return Figure::unknown("the firmware's tables (ACPI HMAT) do not say");
  }
  return Figure::of(static_cast<double>(value) * unit, "the firmware's tables (ACPI HMAT)");
}

void read_memory(hwloc_topology_t topology, const std::vector<hwloc_obj_t>& cores, Machine& machine) {
  constexpr double kMiB = 1 << 20;
  constexpr double kNanosecond = 1e-9;
  for (const hwloc_obj_t object : objects_of(topology, HWLOC_OBJ_NUMANODE)) {
    NumaNode node;
    node.id = static_cast<int>(object->os_index);
    node.package = package_of(topology, object);
    node.memory_bytes = object->attr->numanode.local_memory;
    node.cores = cores_in(cores, object);
    machine.links.push_back({LinkKind::Memory, fmt::format("numa:{}", node.id),
                             node.package < 0 ? "host" : fmt::format("package:{}", node.package),
                             memory_figure(topology, HWLOC_MEMATTR_ID_BANDWIDTH, object, kMiB),
                             memory_figure(topology, HWLOC_MEMATTR_ID_LATENCY, object, kNanosecond)});
    machine.numa_nodes.push_back(std::move(node));
  }
}

/// The nodes' sum, unless /proc knows better: memory added to a running machine may be missing from its node.
void read_total_memory(hwloc_topology_t topology, Machine& machine) {
  for (const NumaNode& node : machine.numa_nodes) machine.memory_bytes += node.memory_bytes;
  std::ifstream meminfo("/proc/meminfo");
  std::string label;
  std::uint64_t kib = 0;
  if (!hwloc_topology_is_thissystem(topology) || !(meminfo >> label >> kib) || label != "MemTotal:") return;
  const std::uint64_t total = kib << 10;
  if (machine.memory_bytes < total - total / 16) {
    machine.unseen.push_back(
        {"memory per NUMA node", fmt::format("the kernel's nodes add up to {} MiB, but it has {} MiB",
                                             machine.memory_bytes >> 20, total >> 20)});
  }
  machine.memory_bytes = total;
}

/// Links between NUMA nodes. The firmware usually gives only a ratio, which is kept as the reason.
void read_distances(hwloc_topology_t topology, Machine& machine) {
  hwloc_distances_s* found[4] = {};
  unsigned count = std::size(found);
  if (hwloc_distances_get_by_type(topology, HWLOC_OBJ_NUMANODE, &count, found, HWLOC_DISTANCES_KIND_MEANS_LATENCY, 0) !=
      0) {
    return;
  }
  for (unsigned d = 0; d < std::min<unsigned>(count, std::size(found)); ++d) {
    const hwloc_distances_s& table = *found[d];
    for (unsigned i = 0; d == 0 && i < table.nbobjs; ++i) {
      for (unsigned j = i + 1; j < table.nbobjs; ++j) {
        const std::string ratio = fmt::format("the firmware (ACPI SLIT) gives the distance {} only, local is {}",
                                              table.values[i * table.nbobjs + j], table.values[i * table.nbobjs + i]);
        machine.links.push_back({LinkKind::Memory, fmt::format("numa:{}", table.objs[i]->os_index),
                                 fmt::format("numa:{}", table.objs[j]->os_index), Figure::unknown(ratio),
                                 Figure::unknown(ratio)});
      }
    }
    hwloc_distances_release(topology, found[d]);
  }
}

}  // namespace

void read_processors(const std::filesystem::path& root, Machine& machine) {
  read_processors(load(root).get(), machine);
}

void read_processors(hwloc_topology_t topology, Machine& machine) {
  std::vector<hwloc_obj_t> cores;
  read_cores(topology, cores, machine);
  for (const hwloc_obj_t object : objects_of(topology, HWLOC_OBJ_PACKAGE)) {
    const char* model = hwloc_obj_get_info_by_name(object, "CPUModel");
    machine.packages.push_back(
        {static_cast<int>(object->os_index), model == nullptr ? "" : model, cores_in(cores, object)});
  }
  read_caches(topology, cores, machine);
  read_memory(topology, cores, machine);
  read_total_memory(topology, machine);
  read_distances(topology, machine);
  read_pci(topology, machine);
}

}  // namespace sinew
