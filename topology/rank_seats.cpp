#include <algorithm>
#include <tuple>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/topology/distance.hpp>
#include <sinew/topology/rank_seats.hpp>

namespace sinew {
namespace {

struct Part {
  std::string name;
  int numa_node = -1;
};

bool joined_by_nvlink(const Machine& machine) {
  for (std::size_t g = 1; g < machine.gpus.size(); ++g) {
    if (distance(machine, "gpu:0", fmt::format("gpu:{}", g)).between != Between::NvLink) return false;
  }
  return machine.gpus.size() > 1;
}

/// What ranks sit on, one after the other.
std::vector<Part> parts_for_ranks(const Machine& machine) {
  std::vector<Part> parts;
  const bool equally_near = joined_by_nvlink(machine);
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

int nearest_nic(const Machine& machine, const Part& part, std::span<const int> nics, const std::vector<int>& users) {
  const auto from_here = [&](std::size_t n) {
    const std::string nic = "nic:" + machine.nics[static_cast<std::size_t>(nics[n])].name;
    return std::tuple(part.name.empty() ? Between::Unknown : distance(machine, part.name, nic).between, users[n], n);
  };
  std::size_t best = 0;
  for (std::size_t n = 1; n < nics.size(); ++n) {
    if (from_here(n) < from_here(best)) best = n;
  }
  return static_cast<int>(best);
}

}  // namespace

std::vector<int> nics_for_ranks(const Machine& machine) {
  std::vector<int> nics;
  for (std::size_t n = 0; n < machine.nics.size(); ++n) {
    const Nic& nic = machine.nics[n];
    if (!nic.pci.empty() && nic.up && !nic.loopback) nics.push_back(static_cast<int>(n));
  }
  return nics;
}

int usual_ranks(const Machine& machine) { return static_cast<int>(parts_for_ranks(machine).size()); }

std::vector<RankSeat> seat_ranks(const Machine& machine, std::span<const int> nics, int ranks) {
  const bool on_gpus = !machine.gpus.empty();
  const int most = on_gpus ? static_cast<int>(machine.gpus.size()) : std::max(machine.usable_cores, 1);
  if (ranks > most) {
    throw Error(Code::InvalidArgument, fmt::format("{} ranks on a {}: expected {} at most, one for each {}", ranks,
                                                   machine.host_name, most, on_gpus ? "GPU" : "core"));
  }
  const std::vector<Part> parts = parts_for_ranks(machine);
  std::vector<int> users(nics.size());
  std::vector<RankSeat> seats;
  for (int place = 0; place < ranks; ++place) {
    const Part& part = parts[static_cast<std::size_t>(place) % parts.size()];
    RankSeat& seat = seats.emplace_back(RankSeat{part.name, 0, part.numa_node});
    if (nics.empty()) continue;
    seat.nic = nearest_nic(machine, part, nics, users);
    ++users[static_cast<std::size_t>(seat.nic)];
  }
  return seats;
}

}  // namespace sinew
