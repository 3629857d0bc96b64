#include <netinet/in.h>
#include <rdma/fabric.h>

#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include <sinew/core/base/wire.hpp>
#include <sinew/core/error.hpp>
#include <sinew/transports/ofi/peer_address.hpp>

namespace sinew::ofi {
namespace {

constexpr std::uint64_t kAddressMagic = 0x31'69'66'6f'77'65'6e'73;  // "snewofi1"

bool is_loopback(const PeerAddress& p) {
  if (p.format == FI_SOCKADDR_IN && p.name.size() >= sizeof(sockaddr_in)) {
    sockaddr_in a{};
    std::memcpy(&a, p.name.data(), sizeof a);
    return ntohl(a.sin_addr.s_addr) >> 24 == 127;
  }
  if (p.format == FI_SOCKADDR_IN6 && p.name.size() >= sizeof(sockaddr_in6)) {
    sockaddr_in6 a{};
    std::memcpy(&a, p.name.data(), sizeof a);
    return IN6_IS_ADDR_LOOPBACK(&a.sin6_addr);
  }
  return false;
}

/// Of a name in /dev/shm (left_overs.hpp): the process.
std::string_view owner_of(const PeerAddress& p) {
  const std::string_view name(reinterpret_cast<const char*>(p.name.data()), p.name.size());
  return name.substr(0, name.rfind(':'));
}

}  // namespace

Address PeerAddress::encode() const {
  WireWriter w;
  w.value(kAddressMagic).value(rank).value(instance).text(host_id).text(provider);
  w.value(static_cast<std::uint8_t>(device_memory)).value(format).text(place).bytes(name);
  return w.take();
}

PeerAddress PeerAddress::decode(const Address& bytes) {
  WireReader r(bytes);
  if (bytes.size() < sizeof kAddressMagic || r.value<std::uint64_t>() != kAddressMagic) {
    throw Error(Code::Mismatch, fmt::format("{} bytes that are not the address of an ofi transport", bytes.size()));
  }
  PeerAddress p;
  p.rank = r.value<std::int32_t>();
  p.instance = r.value<std::uint64_t>();
  p.host_id = r.text();
  p.provider = r.text();
  p.device_memory = r.value<std::uint8_t>() != 0;
  p.format = r.value<std::uint32_t>();
  p.place = r.text();
  p.name = r.owned_bytes();
  return p;
}

std::string obstacle_between(const PeerAddress& self, const PeerAddress& peer) {
  if (peer.instance == self.instance) return "a rank does not reach itself over ofi";
  if (peer.provider != self.provider) {
    return fmt::format("rank {} uses the provider {}, this rank {} (SINEW_OFI_PROVIDER chooses)", peer.rank,
                       peer.provider, self.provider);
  }
  if (peer.format != self.format) {
    return fmt::format("rank {} has addresses of format {}, this rank of format {} (SINEW_INTERFACE chooses)",
                       peer.rank, peer.format, self.format);
  }
  if (!self.place.empty() && (peer.host_id != self.host_id || peer.place != self.place)) {
    return fmt::format("the provider {} works within one host, and rank {} is elsewhere ({}; here {})", self.provider,
                       peer.rank, peer.place, self.place);
  }
  if (!self.place.empty() && owner_of(peer) == owner_of(self)) {
    return fmt::format(
        "rank {} is a thread of this process, and the provider {} unmaps a closed endpoint under its peers", peer.rank,
        self.provider);
  }
  if (peer.host_id != self.host_id && is_loopback(is_loopback(self) ? self : peer)) {
    return fmt::format("rank {} is on another host, and one of both has a loopback address only", peer.rank);
  }
  return {};
}

}  // namespace sinew::ofi
