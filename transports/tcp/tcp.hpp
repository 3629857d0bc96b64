#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/config.hpp>
#include <sinew/core/fabric.hpp>
#include <sinew/transports/tcp/addresses/interface_address.hpp>

/// Messages over TCP: one connection per pair for control and eager frames, one per rail (pair of interfaces on one
/// network) for the data of rendezvous in frames that take turns; large payloads go straight between the socket and the
/// user's buffer. No thread of its own.
namespace sinew::tcp {

SINEW_API Module& module();

struct Options {
  int rank = 0;
  std::uint8_t generation = 0;
  Bytes secret;         ///< of the job: every connection proves it
  std::string host_id;  ///< equal text: same host, loopback leads there
  Config config;        ///< interface, ports
  std::size_t eager_bytes = 16 * 1024;
  std::size_t eager_credit_bytes = 256 * 1024;
  std::vector<InterfaceAddress> addresses;  ///< where peers find it, ports aside; empty: what `config` leaves of all
};

/// What the module's fabric opens, without a World.
/// Errors: Error{Unavailable} where the interface has no address or the ports are used up.
SINEW_API std::unique_ptr<Transport> make_transport(const Options& options);

}  // namespace sinew::tcp
