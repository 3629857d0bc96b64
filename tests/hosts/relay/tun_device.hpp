#pragma once

#include <functional>
#include <string>

#include <sinew/core/system/file_descriptor.hpp>

namespace sinew::test {

/// A host of the relay: a network namespace by its name for iproute2, and the device's address there.
struct RelayHost {
  std::string network_namespace;
  std::string address;  ///< IPv4, of a network of 24 bits
};

/// Runs `work` in a thread whose sockets and devices belong to the namespace.
/// Errors: Error{System} where there is no such namespace; what `work` throws.
void in_namespace(const std::string& name, const std::function<void()>& work);

/// Makes a TUN device with the host's address. It goes when the descriptor is closed. A read gives one IP packet that
/// the host sends, and a write is a packet that the host receives; neither blocks.
/// Errors: Error{System} that names the step; InvalidArgument where the address is none.
FileDescriptor open_tun(const RelayHost& host, const std::string& device, int mtu);

}  // namespace sinew::test
