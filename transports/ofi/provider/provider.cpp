#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include <cstring>
#include <set>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/error.hpp>
#include <sinew/transports/ofi/provider/domain.hpp>
#include <sinew/transports/ofi/provider/left_overs.hpp>
#include <sinew/transports/ofi/provider/provider.hpp>

namespace sinew::ofi {
namespace {

constexpr std::uint32_t kVersion = FI_VERSION(1, 14);

/// Best first. Between hosts all but the last need a device.
constexpr std::string_view kPreferred[] = {"cxi", "efa", "opx", "psm3", "psm2", "verbs;ofi_rxm", "tcp;ofi_rxm"};
constexpr std::string_view kEverywhere = "tcp;ofi_rxm";
constexpr std::string_view kShm = "shm";

Info needs(std::string_view provider) {
  Info hints(fi_allocinfo());
  hints->caps = FI_MSG | FI_TAGGED | FI_DIRECTED_RECV;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  hints->tx_attr->msg_order = FI_ORDER_SAS;
  hints->rx_attr->msg_order = FI_ORDER_SAS;
  hints->domain_attr->threading = FI_THREAD_DOMAIN;
  hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
  // What we accept of a provider. Virtual addresses concern remote access, which we do not use.
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
  if (!provider.empty()) hints->fabric_attr->prov_name = ::strndup(provider.data(), provider.size());
  return hints;
}

/// Null where libfabric has nothing.
Info ask(const fi_info& hints, const char* node, const char* service) {
  fi_info* found = nullptr;
  const int result = fi_getinfo(kVersion, node, service, node == nullptr ? 0 : FI_SOURCE, &hints, &found);
  if (result != -FI_ENODATA) require(result, "asking libfabric for its providers");
  return Info(found);
}

/// Everything libfabric offers for our needs, best first; empty where it has nothing.
Info offers(std::string_view provider) {
  const Info hints = needs(provider);
  // The shm provider is told its name in /dev/shm here and nowhere else.
  const OwnName own = provider == kShm ? new_own_name() : OwnName{};
  const char* node = own.owner.empty() ? nullptr : own.owner.c_str();
  const char* service = own.owner.empty() ? nullptr : own.serial.c_str();
  return ask(*hints, node, service);
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

/// `best` and the rails beside it, out of their list.
Choice chosen(const Info& list, const fi_info& best, std::string reason, const Wish& wish) {
  std::vector<Info> further;
  for (const fi_info* rail : further_rails(list.get(), best, wish)) {
    reason += fmt::format("{} {}", further.empty() ? "; and on" : ",", rail->domain_attr->name);
    further.emplace_back(fi_dupinfo(rail));
  }
  // The ranks of a host share all rails.
  const bool nearest = further.empty() && is_of(best, wish.nic);
  if (nearest) {
    reason += fmt::format("; the nearest NIC ({})", wish.nic.why);
  } else if (further.empty() && !wish.nic.interface.empty()) {
    reason += fmt::format("; the nearest NIC, {}, is in no network that all ranks share", wish.nic.interface);
  }
  return {.info = Info(fi_dupinfo(&best)),
          .reason = std::move(reason),
          .is_nearest = nearest,
          .further = std::move(further)};
}

}  // namespace

/// shm is left out. Its name in /dev/shm belongs to the first answer, and cuda_ipc reads memory of a host's devices.
Info with_device_memory(const fi_info& chosen) {
  const std::string_view provider = chosen.fabric_attr->prov_name;
  if (provider == kShm) return nullptr;
  const Info hints = needs(provider);
  hints->caps |= FI_HMEM;
  hints->domain_attr->mr_mode |= FI_MR_HMEM;
  hints->domain_attr->name = ::strdup(chosen.domain_attr->name);
  hints->addr_format = chosen.addr_format;
  const Info able = ask(*hints, nullptr, nullptr);
  return able ? Info(fi_dupinfo(able.get())) : nullptr;
}

std::string lacks_device_memory(const fi_info& chosen) {
  return fmt::format("the provider {} of libfabric {}.{} takes no device memory (FI_HMEM)",
                     chosen.fabric_attr->prov_name, FI_MAJOR(fi_version()), FI_MINOR(fi_version()));
}

Choice choose_provider(const std::string& wanted, const std::string& interfaces, const NicName& nic) {
  if (!wanted.empty()) {
    const Info list = offers(wanted);
    if (!list) {
      not_there(fmt::format("SINEW_OFI_PROVIDER={}: no such provider for messages with tags", wanted),
                names_of(offers({})));
    }
    // shm has one domain, and it is no interface.
    const Wish wish = wanted == kShm ? Wish{} : Wish{.interfaces = interfaces, .nic = nic};
    const fi_info* best = best_of(list.get(), wish);
    if (best == nullptr)
      not_there(fmt::format("SINEW_INTERFACE={}: {} has no such domain", interfaces, wanted), domains_of(list));
    return chosen(list, *best, fmt::format("SINEW_OFI_PROVIDER={}", wanted), wish);
  }
  const Info all = offers({});
  for (const std::string_view name : kPreferred) {
    const Wish wish{.provider = name, .interfaces = interfaces, .nic = nic};
    const fi_info* best = best_of(all.get(), wish);
    if (best == nullptr) continue;
    return chosen(all, *best, name == kEverywhere ? "no RDMA provider is here" : "the best RDMA provider that is here",
                  wish);
  }
  not_there(fmt::format("none of {}{} is here", fmt::join(kPreferred, ", "),
                        interfaces.empty() ? "" : " on SINEW_INTERFACE=" + interfaces),
            names_of(all));
}

}  // namespace sinew::ofi
