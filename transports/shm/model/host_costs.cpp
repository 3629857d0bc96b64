#include <algorithm>

#include <sinew/transports/shm/memory/layout.hpp>
#include <sinew/transports/shm/model/host_costs.hpp>

namespace sinew::shm {
namespace {

constexpr double kSocketBytesPerS = 8 * 25.6e9;

}  // namespace

double HostCosts::bytes_per_s(Shared shared) const noexcept {
  const double in_flight = lines_in_flight * kCacheLine / line_s[static_cast<std::size_t>(shared)];
  return std::min(most_bytes_per_s, in_flight);
}

HostCosts usual_costs(const Levels& levels) {
  const bool clusters = levels.domains(HostPart::Cache) > levels.domains(HostPart::Package);
  const int sockets = std::max(levels.domains(HostPart::Package), 1);
  const int nodes = std::max(levels.domains(HostPart::NumaNode), 1);
  HostCosts costs;
  costs.line_s = clusters ? std::array{23e-9, 107e-9, 107e-9, 197e-9} : std::array{51e-9, 51e-9, 51e-9, 108e-9};
  costs.look_s = 10e-9;
  costs.call_s = 100e-9;
  costs.step_s = kStepOfCall * costs.call_s;
  costs.copy_bytes_per_s = 10e9;
  costs.most_bytes_per_s = 20e9;
  costs.lines_in_flight = 12;
  costs.node_bytes_per_s = kSocketBytesPerS * sockets / nodes;
  costs.node_link_bytes_per_s = 32 * 1.6e9;
  costs.socket_link_bytes_per_s = 3 * 32e9 * 0.7;
  return costs;
}

}  // namespace sinew::shm
