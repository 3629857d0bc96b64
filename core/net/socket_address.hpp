#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/deadline.hpp>
#include <sinew/core/system/file_descriptor.hpp>

namespace sinew {

/// Where a stream socket listens: IPv4, IPv6, or a name in Linux's abstract UNIX namespace, which lives in a network
/// namespace, needs no file and ends with its last descriptor.
class SINEW_API SocketAddress {
 public:
  /// A name longer than the kernel takes (107 bytes) keeps its beginning and ends in a hash of the whole.
  static SocketAddress abstract(std::string_view name);
  /// "10.0.0.1:7000", "[fe80::1%eth0]:7000" or "@name", as text() gives it; host names are not looked up.
  /// Errors: Error{InvalidArgument} showing the forms.
  static SocketAddress parse(std::string_view text);
  /// Looks the host name up. Errors: Error{Unavailable} with the resolver's reason.
  static std::vector<SocketAddress> resolve(const std::string& host, std::uint16_t port);
  /// Every address of this machine that another may reach, no loopback; `interfaces`: names with commas between them,
  /// of these only, loopback too.
  static std::vector<SocketAddress> own(const std::string& interfaces, std::uint16_t port);
  static SocketAddress from(const sockaddr* address, socklen_t length) noexcept;

  bool is_unix() const noexcept { return storage_.ss_family == AF_UNIX; }
  bool is_loopback() const noexcept;
  /// Is it bound to an interface of this machine (or network namespace)?
  bool is_own() const;
  /// Are the first `prefix_bits` of both the same? Never for 0 bits, or for addresses of two kinds.
  bool shares_network(const SocketAddress& other, unsigned prefix_bits) const noexcept;
  std::uint16_t port() const noexcept;
  /// Of an internet address.
  SocketAddress with_port(std::uint16_t port) const noexcept;
  std::string text() const;

  const sockaddr* data() const noexcept { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t length() const noexcept { return length_; }
  int family() const noexcept { return storage_.ss_family; }

 private:
  sockaddr_storage storage_{};
  socklen_t length_ = 0;
};

struct Listener {
  FileDescriptor socket;
  SocketAddress address;  ///< with the port that was taken
};

/// Non-blocking, closed on exec. Errors: Error{System}; "in use" says by errno text which address.
SINEW_API Listener listen_on(const SocketAddress& address);
/// Listens on every interface, IPv4 and IPv6 where there is one, on `port` or (0) on the first free port of `range`.
SINEW_API Listener listen_everywhere(std::uint16_t port, std::optional<std::pair<std::uint16_t, std::uint16_t>> range);
struct ConnectOptions {
  std::optional<SocketAddress> from = {};  ///< an address of this machine, its port counts for nothing; none: any
  int segment_bytes = 0;                   ///< TCP sends no longer segments, either way; 0: what the route carries
};
/// 0, or the errno that ended an attempt to connect; a socket that TCP has connected to itself, as it may where nobody
/// listens on a port of this machine's ephemeral range, counts as refused.
SINEW_API int connect_result(int socket);
/// A connected non-blocking socket, or the errno that stopped it (ETIMEDOUT when the deadline passes).
SINEW_API std::pair<FileDescriptor, int> try_connect(const SocketAddress& address, Deadline deadline,
                                                     const ConnectOptions& options = {});

}  // namespace sinew
