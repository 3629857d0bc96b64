#include <algorithm>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/base/name_list.hpp>
#include <sinew/topology/cluster/nearest_nic.hpp>
#include <sinew/topology/discover/rdma_access.hpp>

namespace sinew {
namespace {

bool has_rdma(const Machine& machine, const Nic& nic) {
  const bool active = nic.rdma.state == RdmaState::Active || (nic.rdma.state == RdmaState::Unknown && nic.running);
  return active && !nic.rdma.device.empty() && rdma_obstacle(machine, nic.rdma.device).empty();
}

/// An interface that is down or has no address may still be an RDMA port that is up; one without an interface is only
/// that.
bool carries_data(const Machine& machine, const Nic& nic) {
  const bool is_port_alone = nic.name == fmt::format("{}:{}", nic.rdma.device, nic.rdma.number);
  return has_rdma(machine, nic) || (nic.running && !is_port_alone);
}

bool is_named(const Nic& nic, std::string_view names) {
  return is_among(names, nic.name) || is_among(names, nic.rdma.device);
}

/// Those of `nics` that `holds` is true for; all, if it is for none.
template <class Holds>
void prefer(std::vector<int>& nics, Holds holds) {
  std::vector<int> kept;
  std::ranges::copy_if(nics, std::back_inserter(kept), holds);
  if (!kept.empty()) nics = std::move(kept);
}

}  // namespace

std::vector<int> nics_for_ranks(const Machine& machine, std::string_view interfaces) {
  std::vector<int> nics;
  const auto at = [&](int n) -> const Nic& { return machine.nics[static_cast<std::size_t>(n)]; };
  for (int n = 0; n < static_cast<int>(machine.nics.size()); ++n) {
    const bool wanted = interfaces.empty() ? !at(n).loopback : is_named(at(n), interfaces);
    if (wanted && carries_data(machine, at(n))) nics.push_back(n);
  }
  const auto on_pci = [&](int n) { return !at(n).pci.empty(); };
  if (interfaces.empty()) prefer(nics, on_pci);
  const auto rate = [&](int n) { return at(n).bytes_per_s.value.value_or(0); };
  const double highest = nics.empty() ? 0 : rate(*std::ranges::max_element(nics, {}, rate));
  prefer(nics, [&](int n) { return rate(n) >= highest; });
  prefer(nics, [&](int n) { return has_rdma(machine, at(n)); });
  if (interfaces.empty() && std::ranges::none_of(nics, on_pci) && !nics.empty()) nics = {nics.front()};
  return nics;
}

Between NicAssigner::nearest(std::span<const std::string> parts, int nic) {
  Between least = Between::Unknown;
  const Nic& here = machine_.nics[static_cast<std::size_t>(nic)];
  if (here.pci.empty() && here.numa_node < 0) return least;  // a virtual one is near nothing
  for (const std::string& part : parts) {
    const auto [known, is_new] = between_.try_emplace({part, nic}, Between::Unknown);
    if (is_new) known->second = distance(machine_, part, "nic:" + here.name).between;
    least = std::min(least, known->second);
  }
  return least;
}

NicAssigner::Assignment NicAssigner::assign(std::span<const std::string> parts, std::span<const int> nics) {
  if (nics.empty()) return {-1, "no NIC carries data here"};
  const auto far = [&](int nic) { return std::tuple(nearest(parts, nic), users_[nic]); };
  const int nic = *std::ranges::min_element(nics, {}, far);
  ++users_[nic];
  const Between between = nearest(parts, nic);
  if (between != Between::Unknown)
    return {nic, fmt::format("{} from {}", to_text(Distance{between}), fmt::join(parts, " or "))};
  return {nic, nics.size() == 1 ? "the only choice" : fmt::format("one of {} that are as near", nics.size())};
}

}  // namespace sinew
