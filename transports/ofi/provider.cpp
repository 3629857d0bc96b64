#include <netinet/in.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include <cstring>
#include <set>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/error.hpp>
#include <sinew/transports/ofi/left_overs.hpp>
#include <sinew/transports/ofi/provider.hpp>

namespace sinew::ofi {
namespace {

constexpr std::uint32_t kVersion = FI_VERSION(1, 14);

/// Best first. Between hosts all but the last need a device.
constexpr std::string_view kPreferred[] = {"cxi", "efa", "opx", "psm3", "psm2", "verbs;ofi_rxm", "tcp;ofi_rxm"};
constexpr std::string_view kEverywhere = "tcp;ofi_rxm";
constexpr std::string_view kShm = "shm";

Info needs(std::string_view provider) {
  Info hints(fi_allocinfo());
  hints->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_DIRECTED_RECV;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  hints->tx_attr->msg_order = FI_ORDER_SAS;
  hints->rx_attr->msg_order = FI_ORDER_SAS;
  hints->domain_attr->threading = FI_THREAD_DOMAIN;
  hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
  if (!provider.empty()) hints->fabric_attr->prov_name = ::strndup(provider.data(), provider.size());
  return hints;
}

/// Everything libfabric offers for our needs, best first; empty where it has nothing.
Info offers(std::string_view provider) {
  const Info hints = needs(provider);
  fi_info* found = nullptr;
  // The shm provider is told its name in /dev/shm here and nowhere else.
  const OwnName own = provider == kShm ? new_own_name() : OwnName{};
  const char* node = own.owner.empty() ? nullptr : own.owner.c_str();
  const char* service = own.owner.empty() ? nullptr : own.serial.c_str();
  const int result = fi_getinfo(kVersion, node, service, node == nullptr ? 0 : FI_SOURCE, hints.get(), &found);
  if (result != -FI_ENODATA) require(result, "asking libfabric for its providers");
  return Info(found);
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

/// The entry of `list` that leads furthest, alone; of this provider (empty: any) and interface (empty: any). null:
/// none.
Info best_of(const Info& list, std::string_view provider, const std::string& interface) {
  const fi_info* best = nullptr;
  for (const fi_info* i = list.get(); i != nullptr; i = i->next) {
    if (!provider.empty() && provider != i->fabric_attr->prov_name) continue;
    if (!interface.empty() && interface != i->domain_attr->name) continue;
    if (best == nullptr || reach_of(*i) < reach_of(*best)) best = i;
  }
  return Info(best == nullptr ? nullptr : fi_dupinfo(best));
}

std::string names_of(const Info& list) {
  std::set<std::string> names;
  for (const fi_info* i = list.get(); i != nullptr; i = i->next) names.insert(i->fabric_attr->prov_name);
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

std::string domains_of(const Info& list) {
  std::set<std::string> names;
  for (const fi_info* i = list.get(); i != nullptr; i = i->next) names.insert(i->domain_attr->name);
  return fmt::format("{}", fmt::join(names, ", "));
}

[[noreturn]] void not_there(const std::string& asked, const std::string& found) {
  throw Error(Code::Unavailable, fmt::format("ofi: {}; libfabric offers {}", asked, found));
}

}  // namespace

Choice choose_provider(const std::string& wanted, const std::string& interface) {
  if (!wanted.empty()) {
    const Info list = offers(wanted);
    if (!list) {
      not_there(fmt::format("SINEW_OFI_PROVIDER={}: no such provider for messages with tags and remote memory", wanted),
                names_of(offers({})));
    }
    // shm has one domain, and it is no interface.
    Info info = best_of(list, {}, wanted == kShm ? "" : interface);
    if (!info) not_there(fmt::format("SINEW_INTERFACE={}: {} has no such domain", interface, wanted), domains_of(list));
    return {std::move(info), fmt::format("SINEW_OFI_PROVIDER={}", wanted)};
  }
  const Info all = offers({});
  for (const std::string_view name : kPreferred) {
    Info info = best_of(all, name, interface);
    if (!info) continue;
    return {std::move(info), name == kEverywhere ? "no RDMA provider is here" : "the best RDMA provider that is here"};
  }
  not_there(fmt::format("none of {}{} is here", fmt::join(kPreferred, ", "),
                        interface.empty() ? "" : " on SINEW_INTERFACE=" + interface),
            names_of(all));
}

}  // namespace sinew::ofi
