#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>

#include <fmt/format.h>
#include <openssl/evp.h>

#include <sinew/core/base/name_list.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/net/socket_address.hpp>

namespace sinew {
namespace {

constexpr const char* kUnknownHost = "?";  // of an address that is not an internet address
constexpr std::size_t kLongestName = sizeof(sockaddr_un::sun_path) - 1;  // the first byte is the abstract marker

const sockaddr_in& v4(const sockaddr_storage& s) { return reinterpret_cast<const sockaddr_in&>(s); }
const sockaddr_in6& v6(const sockaddr_storage& s) { return reinterpret_cast<const sockaddr_in6&>(s); }

std::string fitted(std::string_view name) {
  if (name.size() <= kLongestName) return std::string(name);
  std::array<unsigned char, 32> digest{};
  EVP_Digest(name.data(), name.size(), digest.data(), nullptr, EVP_sha256(), nullptr);
  std::string hash = "-";
  for (const unsigned char c : std::span(digest).first<16>()) hash += fmt::format("{:02x}", c);
  return std::string(name.substr(0, kLongestName - hash.size())) + hash;
}

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

/// getaddrinfo for a stream socket; null with `reason` filled in.
AddressList look_up(const std::string& host, std::uint16_t port, int flags, int& reason) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  reason = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  return {reason == 0 ? found : nullptr, &::freeaddrinfo};
}

using Interfaces = std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)>;

Interfaces interfaces() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) throw_errno("listing this machine's network interfaces");
  return {list, &::freeifaddrs};
}

std::span<const unsigned char> ip_bytes(const SocketAddress& a) {
  if (a.family() == AF_INET) {
    return {reinterpret_cast<const unsigned char*>(&reinterpret_cast<const sockaddr_in*>(a.data())->sin_addr), 4};
  }
  return {reinterpret_cast<const unsigned char*>(&reinterpret_cast<const sockaddr_in6*>(a.data())->sin6_addr), 16};
}

bool same_host(const SocketAddress& a, const SocketAddress& b) {
  return a.family() == b.family() && std::ranges::equal(ip_bytes(a), ip_bytes(b));
}

bool is_internet(const sockaddr* a) { return a != nullptr && (a->sa_family == AF_INET || a->sa_family == AF_INET6); }
socklen_t length_of(const sockaddr* a) { return a->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6); }

}  // namespace

SocketAddress SocketAddress::from(const sockaddr* address, socklen_t length) noexcept {
  SocketAddress out;
  std::memcpy(&out.storage_, address, length);
  out.length_ = length;
  return out;
}

SocketAddress SocketAddress::abstract(std::string_view name) {
  const std::string path = fitted(name);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, path.data(), path.size());
  return from(reinterpret_cast<const sockaddr*>(&address),
              static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + path.size()));
}

SocketAddress SocketAddress::parse(std::string_view text) {
  if (text.starts_with('@')) return abstract(text.substr(1));
  const std::size_t colon = text.rfind(':');
  unsigned port = 0;
  if (colon != std::string_view::npos) {
    const auto [end, error] = std::from_chars(text.data() + colon + 1, text.data() + text.size(), port);
    std::string_view host = text.substr(0, colon);
    const bool bracketed = host.starts_with('[') && host.ends_with(']');
    if (bracketed) host = host.substr(1, host.size() - 2);
    int reason = 0;
    if (error == std::errc{} && end == text.data() + text.size() && port <= 65535 && !host.empty()) {
      const auto list = look_up(std::string(host), static_cast<std::uint16_t>(port), AI_NUMERICHOST, reason);
      if (list) return from(list->ai_addr, list->ai_addrlen);
    }
  }
  throw Error(Code::InvalidArgument,
              fmt::format("'{}': expected an address such as 10.0.0.1:7000 or [fd00::1]:7000", text));
}

std::vector<SocketAddress> SocketAddress::resolve(const std::string& host, std::uint16_t port) {
  int reason = 0;
  const auto list = look_up(host, port, 0, reason);
  if (!list) {
    throw Error(Code::Unavailable, fmt::format("host name '{}' cannot be looked up: {}", host, ::gai_strerror(reason)));
  }
  std::vector<SocketAddress> all;
  for (const addrinfo* a = list.get(); a != nullptr; a = a->ai_next) all.push_back(from(a->ai_addr, a->ai_addrlen));
  return all;
}

std::vector<SocketAddress> SocketAddress::own(const std::string& names, std::uint16_t port) {
  std::vector<SocketAddress> all;
  const Interfaces list = interfaces();
  for (const ifaddrs* i = list.get(); i != nullptr; i = i->ifa_next) {
    if (!is_internet(i->ifa_addr) || (i->ifa_flags & IFF_UP) == 0) continue;
    if (!names.empty() && !is_among(names, i->ifa_name)) continue;
    const SocketAddress a = from(i->ifa_addr, length_of(i->ifa_addr));
    if (a.is_loopback() && names.empty()) continue;
    if (a.family() == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&v6(a.storage_).sin6_addr)) continue;
    all.push_back(a.with_port(port));
  }
  return all;
}

bool SocketAddress::is_loopback() const noexcept {
  if (family() == AF_INET) return (ntohl(v4(storage_).sin_addr.s_addr) >> 24) == 127;
  return family() == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6(storage_).sin6_addr);
}

bool SocketAddress::is_own() const {
  if (is_unix() || is_loopback()) return true;
  const Interfaces list = interfaces();
  for (const ifaddrs* i = list.get(); i != nullptr; i = i->ifa_next) {
    if (is_internet(i->ifa_addr) && same_host(*this, from(i->ifa_addr, length_of(i->ifa_addr)))) return true;
  }
  return false;
}

bool SocketAddress::shares_network(const SocketAddress& other, unsigned prefix_bits) const noexcept {
  if (prefix_bits == 0 || is_unix() || other.family() != family()) return false;
  const auto mine = ip_bytes(*this);
  const auto theirs = ip_bytes(other);
  for (unsigned bit = 0; bit < prefix_bits && bit / 8 < mine.size(); ++bit) {
    if (((mine[bit / 8] ^ theirs[bit / 8]) >> (7 - bit % 8) & 1) != 0) return false;
  }
  return true;
}

std::uint16_t SocketAddress::port() const noexcept {
  if (family() == AF_INET) return ntohs(v4(storage_).sin_port);
  return family() == AF_INET6 ? ntohs(v6(storage_).sin6_port) : std::uint16_t{0};
}

SocketAddress SocketAddress::with_port(std::uint16_t port) const noexcept {
  SocketAddress a = *this;
  (family() == AF_INET ? reinterpret_cast<sockaddr_in&>(a.storage_).sin_port
                       : reinterpret_cast<sockaddr_in6&>(a.storage_).sin6_port) = htons(port);
  return a;
}

std::string SocketAddress::host_text() const {
  std::array<char, NI_MAXHOST> host{};
  if (::getnameinfo(data(), length_, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST) != 0) return kUnknownHost;
  return host.data();
}

std::string SocketAddress::text() const {
  if (is_unix()) {
    const auto& address = reinterpret_cast<const sockaddr_un&>(storage_);
    constexpr std::size_t kMarked = offsetof(sockaddr_un, sun_path) + 1;  // who connects has no name
    return fmt::format("@{}", std::string_view(address.sun_path + 1, length_ > kMarked ? length_ - kMarked : 0));
  }
  const std::string host = host_text();
  if (host == kUnknownHost) return host;
  return family() == AF_INET6 ? fmt::format("[{}]:{}", host, port()) : fmt::format("{}:{}", host, port());
}

}  // namespace sinew
