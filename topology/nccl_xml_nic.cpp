#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <sinew/topology/nccl_xml_parts.hpp>

namespace sinew::nccl_xml {
namespace {

constexpr unsigned kClassInfiniBand = 0x0207;

Figure rate_of_net(const XmlReader& reader, pugi::xml_node net) {
  constexpr double kBytesPerMegabit = 1e6 / 8;
  const long long megabits = reader.integer(net, "speed", -1, 1'000'000'000).value_or(0);
  if (megabits <= 0) return Figure::unknown("the driver named NCCL no rate (NCCL assumes 10 Gbit/s)");
  return Figure::of(static_cast<double>(megabits) * kBytesPerMegabit, "NCCL, from the driver");
}

/// In microseconds; 0 where the network's plugin does not know.
Figure latency_of(pugi::xml_node net) {
  const double microseconds = net.attribute("latency").as_double();
  return microseconds > 0 && std::isfinite(microseconds) ? Figure::of(microseconds * 1e-6, "NCCL's network plugin")
                                                         : Figure::unknown("not measured");
}

Nic nic_of(const XmlReader& reader, pugi::xml_node net, const PciDevice* device, unsigned class_id) {
  Nic nic;
  nic.name = reader.required_text(net, "name");
  if (nic.name.empty()) reader.reject(net, "name=\"\": expected the name of an interface or a device");
  nic.up = nic.running = true;  // NCCL lists no others
  nic.bytes_per_s = rate_of_net(reader, net);
  // Sockets have no GUID; all else is RDMA by a device of this name.
  if (const std::string guid = XmlReader::text(net, "guid"); guid.find_first_not_of("0x") != std::string::npos) {
    const auto port = static_cast<int>(reader.integer(net, "port", 0, 255).value_or(1));
    nic.rdma = {nic.name, std::max(port, 1), RdmaState::Active, ""};
    nic.kind = class_id == kClassInfiniBand ? NicKind::InfiniBand : NicKind::RoCE;
    nic.name = fmt::format("{}:{}", nic.rdma.device, nic.rdma.number);
  }
  if (device != nullptr) {
    nic.pci = device->address;
    nic.numa_node = device->numa_node;
  }
  return nic;
}

}  // namespace

void read_nic(const XmlReader& reader, pugi::xml_node nic, const PciDevice* device, unsigned class_id,
              Machine& machine) {
  for (const pugi::xml_node net : nic.children("net")) {
    Nic found = nic_of(reader, net, device, class_id);
    const auto same = std::ranges::find(machine.nics, found.name, &Nic::name);
    if (same == machine.nics.end()) {
      machine.links.push_back({LinkKind::Network, "nic:" + found.name, "network", found.bytes_per_s, latency_of(net)});
      machine.nics.push_back(std::move(found));
    } else if (!same->pci.empty() || !found.pci.empty()) {  // one without a place is listed below every <cpu>
      reader.reject(net, fmt::format("name=\"{}\": {} is listed twice", XmlReader::text(net, "name"), found.name));
    }
  }
}

}  // namespace sinew::nccl_xml
