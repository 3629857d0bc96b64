#pragma once

#include <string>
#include <vector>

#include <sinew/core/call/cost.hpp>
#include <sinew/core/fabric.hpp>
#include <sinew/transports/ofi/provider/handles.hpp>

namespace sinew::ofi {

/// A provider, and why it is this one.
struct Choice {
  Info info;
  std::string reason;
  bool is_nearest = false;  ///< its domain is the NIC's that was wished for
  Availability device_memory = Availability::no("this rank has no device");
  std::vector<Info> further;  ///< of further rails (domain.hpp)

  std::string name() const { return info->fabric_attr->prov_name; }
};

/// `wanted` (SINEW_OFI_PROVIDER), or the first there is of the RDMA providers, else TCP. Those that copy through the
/// kernel without need (sockets, udp) and shm, which survives its process in /dev/shm, are taken only when wanted.
/// Of its domains best_of (domain.hpp) takes one, by `interfaces` (SINEW_INTERFACE) and the nearest NIC. libfabric's
/// own FI_* variables hold. Errors: Error{Unavailable} with what was asked for and what there is.
Choice choose_provider(const std::string& wanted, const std::string& interfaces, const NicName& nic = {});

/// Returns the same provider and domain for messages that may lie in CUDA memory, too (FI_HMEM). Null: libfabric has no
/// such one.
Info with_device_memory(const fi_info& chosen);
/// Tells why a provider is used without device memory although the rank has a device.
std::string lacks_device_memory(const fi_info& chosen);

}  // namespace sinew::ofi
