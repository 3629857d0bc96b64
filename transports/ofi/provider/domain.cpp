#include <netinet/in.h>
#include <rdma/fi_domain.h>

#include <algorithm>
#include <fstream>
#include <string>

#include <fmt/format.h>

#include <sinew/core/base/name_list.hpp>
#include <sinew/transports/ofi/provider/domain.hpp>

namespace sinew::ofi {
namespace {

std::string_view text(const char* maybe) { return maybe == nullptr ? std::string_view() : maybe; }

/// As the kernel writes it; empty: the provider does not say.
std::string pci_of(const fi_info& offer) {
  const fi_bus_attr* bus = offer.nic == nullptr ? nullptr : offer.nic->bus_attr;
  if (bus == nullptr || bus->bus_type != FI_BUS_PCI) return {};
  const fi_pci_attr& at = bus->attr.pci;
  return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", at.domain_id, at.bus_id, at.device_id, at.function_id);
}

bool is_named(std::string_view domain, std::string_view device) {
  return !device.empty() && domain.starts_with(device) &&
         (domain.size() == device.size() || domain[device.size()] == '-');
}

/// How far an address leads, best first; IPv4 before IPv6, so that all hosts choose alike.
int reach_of(const fi_info& i) {
  if (i.src_addr == nullptr) return 0;
  if (i.addr_format == FI_SOCKADDR_IN) {
    const auto& a = *static_cast<const sockaddr_in*>(i.src_addr);
    return ntohl(a.sin_addr.s_addr) >> 24 == 127 ? 3 : 0;
  }
  if (i.addr_format == FI_SOCKADDR_IN6) {
    const in6_addr& a = static_cast<const sockaddr_in6*>(i.src_addr)->sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(&a) ? 3 : IN6_IS_ADDR_LINKLOCAL(&a) ? 2 : 1;
  }
  return 0;
}

bool is_wanted(const fi_info& offer, const Wish& wish) {
  if (!wish.provider.empty() && wish.provider != text(offer.fabric_attr->prov_name)) return false;
  return wish.interfaces.empty() || is_among(wish.interfaces, text(offer.domain_attr->name)) || is_of(offer, wish.nic);
}

bool shares_network(const fi_info& a, const fi_info& b) {
  return text(a.fabric_attr->prov_name) == text(b.fabric_attr->prov_name) &&
         text(a.fabric_attr->name) == text(b.fabric_attr->name) && a.addr_format == b.addr_format;
}

bool is_over_network(const fi_info& i) { return i.addr_format == FI_SOCKADDR_IN && reach_of(i) == 0; }

/// As the kernel says it in Mbit/s; empty where the interface has none.
std::string speed_of(const fi_info& i) {
  std::ifstream file(fmt::format("/sys/class/net/{}/speed", text(i.domain_attr->name)));
  std::string speed;
  std::getline(file, speed);
  return speed;
}

}  // namespace

bool is_of(const fi_info& offer, const NicName& nic) {
  const std::string pci = pci_of(offer);
  if (!pci.empty() && !nic.pci.empty()) return pci == nic.pci;
  const std::string_view domain = text(offer.domain_attr->name);
  return is_named(domain, nic.rdma_device) || (!nic.interface.empty() && domain == nic.interface);
}

const fi_info* best_of(const fi_info* offers, const Wish& wish) {
  const fi_info* best = nullptr;
  for (const fi_info* i = offers; i != nullptr; i = i->next) {
    if (is_wanted(*i, wish) && (best == nullptr || reach_of(*i) < reach_of(*best))) best = i;
  }
  for (const fi_info* i = offers; i != nullptr && best != nullptr; i = i->next) {
    const bool reaches_all = shares_network(*i, *best) || (wish.nic.one_network && i->addr_format == FI_SOCKADDR_IN);
    if (is_wanted(*i, wish) && is_of(*i, wish.nic) && reaches_all && reach_of(*i) <= reach_of(*best)) return i;
  }
  return best;
}

std::vector<const fi_info*> further_rails(const fi_info* offers, const fi_info& best, const Wish& wish) {
  std::vector<const fi_info*> rails;
  if (!text(best.fabric_attr->prov_name).starts_with("tcp") || !is_over_network(best)) return rails;
  const std::string speed = speed_of(best);
  for (const fi_info* i = offers; i != nullptr && rails.size() + 1 < kMostRails; i = i->next) {
    const auto is_there_too = [i](const fi_info* other) {
      return text(other->fabric_attr->name) == text(i->fabric_attr->name) ||
             text(other->domain_attr->name) == text(i->domain_attr->name);
    };
    const bool same_provider = text(i->fabric_attr->prov_name) == text(best.fabric_attr->prov_name);
    if (!same_provider || !is_over_network(*i) || !is_wanted(*i, wish) || speed_of(*i) != speed) continue;
    if (!is_there_too(&best) && std::ranges::none_of(rails, is_there_too)) rails.push_back(i);
  }
  return rails;
}

}  // namespace sinew::ofi
