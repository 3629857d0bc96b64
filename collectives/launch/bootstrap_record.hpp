#pragma once

#include <string>
#include <string_view>

#include <sinew/collectives/launch/bootstrap.hpp>

namespace sinew {

/// What rank 0 tells the others through PMIx or PMI: where its store is, and for jobs of several hosts the secret.
struct BootstrapRecord {
  std::string network;  ///< boot id and network namespace of rank 0: who shares them can use the UNIX socket
  std::string unix_address;
  std::string tcp_addresses;  ///< comma-separated; empty: all ranks are on one host
  Bytes secret;               ///< empty alike: the UNIX socket hands it out
  std::uint64_t store = 0;    ///< the store's number at those addresses

  Bytes encode() const;
  /// Errors: Error{Mismatch} if it is none.
  static BootstrapRecord decode(std::span<const std::byte> bytes);
};

/// Rank 0: serves a store at `place`, and over TCP if the ranks are on several hosts; with what the others must know.
struct Hosting {
  std::shared_ptr<HostedStore> store;
  BootstrapRecord record;
};
Hosting host_bootstrap(const SocketAddress& place, int ranks, bool several_hosts, const Config& config);

/// Fills in where to go and the secret. Errors: Unavailable if rank 0 serves only its own host and this is another.
void follow(const BootstrapRecord& record, Bootstrap& bootstrap);

/// Letters and digits only, as PMI's values must be.
std::string to_hex(std::span<const std::byte> bytes);
/// Errors: Error{Mismatch} if it is not hexadecimal, without the text, which may hold a secret.
Bytes from_hex(std::string_view text);

}  // namespace sinew
