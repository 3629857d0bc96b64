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

constexpr std::uint64_t kAddressMagic = 0x32'69'66'6f'77'65'6e'73;  // "snewofi2"

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

/// False for other forms of addresses than IPv4.
bool is_same_machine(const Bytes& a, const Bytes& b) {
  sockaddr_in one{}, other{};
  if (a.size() < sizeof one || b.size() < sizeof other) return false;
  std::memcpy(&one, a.data(), sizeof one);
  std::memcpy(&other, b.data(), sizeof other);
  return one.sin_family == AF_INET && one.sin_addr.s_addr == other.sin_addr.s_addr;
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
  w.value(static_cast<std::uint32_t>(further.size()));
  for (const RailName& rail : further) w.text(rail.network).bytes(rail.name);
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
  const auto count = r.value<std::uint32_t>();
  for (std::uint32_t i = 0; i < count; ++i) {
    RailName& rail = p.further.emplace_back();
    rail.network = r.text();
    rail.name = r.owned_bytes();
  }
  return p;
}

std::vector<RailPair> rails_between(const PeerAddress& self, const PeerAddress& peer) {
  std::vector<RailPair> pairs;
  if (self.host_id == peer.host_id) return pairs;
  const bool lower = self.rank < peer.rank;
  const std::vector<RailName>& outer = (lower ? self : peer).further;
  const std::vector<RailName>& inner = (lower ? peer : self).further;
  std::vector<bool> used(inner.size());
  for (std::size_t i = 0; i < outer.size() && pairs.size() + 1 < kMostRails; ++i) {
    for (std::size_t k = 0; k < inner.size(); ++k) {
      if (used[k] || outer[i].network != inner[k].network || is_same_machine(outer[i].name, inner[k].name)) continue;
      used[k] = true;
      pairs.push_back(lower ? RailPair{i, k} : RailPair{k, i});
      break;
    }
  }
  return pairs;
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
