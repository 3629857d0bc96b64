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
  /// Without the port, and without the brackets of IPv6.
  std::string host_text() const;

  const sockaddr* data() const noexcept { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t length() const noexcept { return length_; }
  int family() const noexcept { return storage_.ss_family; }

 private:
  sockaddr_storage storage_{};
  socklen_t length_ = 0;
};

}  // namespace sinew
