#include <algorithm>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/topology/cluster/nearest_nic.hpp>
#include <sinew/topology/cluster/rank_bindings.hpp>
#include <sinew/topology/model/distance.hpp>

namespace sinew {
namespace {

struct Part {
  std::string name;
  int numa_node = -1;
};

bool joined_by_gpu_links(const Machine& machine) {
  for (std::size_t g = 1; g < machine.gpus.size(); ++g) {
    const Between between = distance(machine, "gpu:0", fmt::format("gpu:{}", g)).between;
    if (between != Between::NvLink && between != Between::Xgmi) return false;
  }
  return machine.gpus.size() > 1;
}

/// What ranks sit on, one after the other.
std::vector<Part> parts_for_ranks(const Machine& machine) {
  std::vector<Part> parts;
  const bool equally_near = joined_by_gpu_links(machine);
  for (std::size_t g = 0; g < machine.gpus.size(); ++g)
    parts.push_back({fmt::format("gpu:{}", g), equally_near ? -1 : machine.gpus[g].numa_node});
  if (!parts.empty()) return parts;
  std::vector<int> seen;
  for (const NumaNode& node : machine.numa_nodes) {
    if (node.package >= 0 && std::ranges::find(seen, node.package) != seen.end()) continue;
    seen.push_back(node.package);
    parts.push_back({fmt::format("numa:{}", node.id), node.id});
  }
  if (parts.empty()) parts.emplace_back();
  return parts;
}

}  // namespace

int usual_ranks(const Machine& machine) { return static_cast<int>(parts_for_ranks(machine).size()); }

std::vector<RankBinding> bind_ranks(const Machine& machine, std::span<const int> nics, int ranks) {
  const bool on_gpus = !machine.gpus.empty();
  const int most = on_gpus ? static_cast<int>(machine.gpus.size()) : std::max(machine.usable_cores, 1);
  if (ranks > most) {
    throw Error(Code::InvalidArgument, fmt::format("{} ranks on a {}: expected {} at most, one for each {}", ranks,
                                                   machine.host_name, most, on_gpus ? "GPU" : "core"));
  }
  const std::vector<Part> parts = parts_for_ranks(machine);
  NicAssigner assigner(machine);
  std::vector<RankBinding> bindings;
  for (int place = 0; place < ranks; ++place) {
    const Part& part = parts[static_cast<std::size_t>(place) % parts.size()];
    RankBinding& binding = bindings.emplace_back(RankBinding{part.name, 0, part.numa_node});
    if (nics.empty()) continue;
    const std::vector<std::string> near(part.name.empty() ? 0 : 1, part.name);
    binding.nic = static_cast<int>(std::ranges::find(nics, assigner.assign(near, nics).nic) - nics.begin());
  }
  return bindings;
}

}  // namespace sinew
