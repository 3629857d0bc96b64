#pragma once

#include <string>
#include <string_view>

#include <sinew/collectives/launch/bootstrap.hpp>

namespace sinew {

/// The record that rank 0 publishes through PMIx or PMI. It has the addresses of the store and, for jobs on several
/// hosts, the secret.
struct BootstrapRecord {
  std::string network;  ///< boot id and network namespace of rank 0; ranks with equal ones can use the UNIX socket
  std::string unix_address;
  std::string tcp_addresses;  ///< comma-separated; empty: all ranks are on one host
  Bytes secret;               ///< empty if all ranks are on one host: the server on the UNIX socket sends it
  std::uint64_t store = 0;    ///< the store's number at those addresses

  Bytes encode() const;
  /// Errors: Error{Mismatch} if the bytes are no record.
  static BootstrapRecord decode(std::span<const std::byte> bytes);
};

/// The store that rank 0 serves, and the record for the other ranks.
struct Hosting {
  std::shared_ptr<HostedStore> store;
  BootstrapRecord record;
};
/// Serves a store at `place`, and over TCP if the ranks are on several hosts. Rank 0 calls it.
Hosting host_bootstrap(const SocketAddress& place, int ranks, bool several_hosts, const Config& config);

/// Sets the addresses and the secret of `bootstrap`.
/// Errors: Unavailable if rank 0 serves only its own host, and this is another host.
void follow(const BootstrapRecord& record, Bootstrap& bootstrap);

/// Encodes bytes with letters and digits only, since values of PMI allow no others.
std::string to_hex(std::span<const std::byte> bytes);
/// Errors: Error{Mismatch} if the text is not hexadecimal. The message does not show the text, which may contain a
///         secret.
Bytes from_hex(std::string_view text);

}  // namespace sinew
