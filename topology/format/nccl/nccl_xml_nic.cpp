#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include <sinew/topology/format/nccl/nccl_xml_parts.hpp>

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
Figure net_latency_of(const XmlReader& reader, pugi::xml_node net) {
  const std::string written = reader.text(net, "latency");
  double microseconds = 0;
  const auto [end, error] = std::from_chars(written.data(), written.data() + written.size(), microseconds);
  const bool is_number = error == std::errc{} && end == written.data() + written.size() && std::isfinite(microseconds);
  if (!written.empty() && !is_number) {
    reader.reject(net, fmt::format("latency=\"{}\": expected microseconds such as 1.5", written));
  }
  return microseconds > 0 ? Figure::of(microseconds * 1e-6, "NCCL's network plugin") : Figure::unknown("not measured");
}

Nic nic_of(const XmlReader& reader, pugi::xml_node net, const PciDevice* device, unsigned class_id) {
  Nic nic;
  nic.name = reader.required_text(net, "name");
  if (nic.name.empty()) reader.reject(net, "name=\"\": expected the name of an interface or a device");
  nic.up = nic.running = true;  // NCCL lists no others
  nic.bytes_per_s = rate_of_net(reader, net);
  // Sockets have no GUID; all else is RDMA by a device of this name.
  if (const std::string guid = reader.text(net, "guid"); guid.find_first_not_of("0x") != std::string::npos) {
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

/// Whether it is new.
bool read_net(const Reading& reading, pugi::xml_node net, const PciDevice* device, unsigned class_id) {
  const XmlReader& reader = reading.reader;
  Machine& machine = reading.machine;
  Nic found = nic_of(reader, net, device, class_id);
  const Figure latency = net_latency_of(reader, net);
  const Link link{LinkKind::Network, "nic:" + found.name, "network", found.bytes_per_s, latency};
  const auto same = std::ranges::find(machine.nics, found.name, &Nic::name);
  if (same == machine.nics.end()) {
    machine.links.push_back(link);
    machine.nics.push_back(std::move(found));
    return true;
  }
  if (*same == found && found.pci.empty() && std::ranges::find(machine.links, link) != machine.links.end()) {
    // A device without a place is listed below every <cpu>.
    reading.ignored.add(reader.line_of(net), fmt::format("<net> of {} again", found.name), "it is read once", true);
    reader.skip(net);
    return false;
  }
  reader.reject(net, fmt::format("name=\"{}\": {} is listed twice", reader.text(net, "name"), found.name));
}

}  // namespace

void read_nics(const Reading& reading, pugi::xml_node parent, const PciDevice* device, unsigned class_id) {
  const XmlReader& reader = reading.reader;
  for (const pugi::xml_node nic : reader.children(parent, "nic")) {
    bool has_new = false;
    for (const pugi::xml_node net : reader.children(nic, "net")) {
      const bool is_new = read_net(reading, net, device, class_id);
      has_new = has_new || is_new;
    }
    if (!has_new)
      reading.ignored.add(reader.line_of(nic), "<nic> without a new <net>", "it names no other device", true);
  }
  for (const pugi::xml_node net : reader.children(parent, "net")) read_net(reading, net, device, class_id);
}

}  // namespace sinew::nccl_xml
