#pragma once

#include <string>

#include <sinew/transports/ofi/handles.hpp>

namespace sinew::ofi {

/// A provider, and why it is this one.
struct Choice {
  Info info;
  std::string reason;

  std::string name() const { return info->fabric_attr->prov_name; }
};

/// `wanted` (SINEW_OFI_PROVIDER), or the first there is of the RDMA providers, else TCP. Those that copy through the
/// kernel without need (sockets, udp) and shm, which survives its process in /dev/shm, are taken only when wanted.
/// `interface` (SINEW_INTERFACE): only the domain of this name. libfabric's own FI_* variables hold.
/// Errors: Error{Unavailable} with what was asked for and what there is.
Choice choose_provider(const std::string& wanted, const std::string& interface);

}  // namespace sinew::ofi
