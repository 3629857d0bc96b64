#include <fmt/format.h>

#include <sinew/core/base/wire.hpp>
#include <sinew/core/error.hpp>
#include <sinew/transports/ucx/peer_address.hpp>

namespace sinew::ucx {
namespace {

constexpr std::uint64_t kAddressMagic = 0x32'78'63'75'77'65'6e'73;  // "snewucx2"

constexpr std::uint8_t kLeadsElsewhere = 1;
constexpr std::uint8_t kDeviceMemory = 2;

}  // namespace

Address PeerAddress::encode() const {
  WireWriter w;
  const auto able =
      static_cast<std::uint8_t>((leads_elsewhere ? kLeadsElsewhere : 0) | (device_memory ? kDeviceMemory : 0));
  w.value(kAddressMagic).value(rank).value(instance).text(host_id).value(able).bytes(worker);
  w.value(static_cast<std::uint32_t>(rails.size()));
  for (const RailAddress& rail : rails) w.text(rail.network).text(rail.machine).bytes(rail.worker);
  return w.take();
}

PeerAddress PeerAddress::decode(const Address& bytes) {
  WireReader r(bytes);
  if (bytes.size() < sizeof kAddressMagic || r.value<std::uint64_t>() != kAddressMagic) {
    throw Error(Code::Mismatch, fmt::format("{} bytes that are not the address of a ucx transport", bytes.size()));
  }
  PeerAddress p;
  p.rank = r.value<std::int32_t>();
  p.instance = r.value<std::uint64_t>();
  p.host_id = r.text();
  const auto able = r.value<std::uint8_t>();
  p.leads_elsewhere = (able & kLeadsElsewhere) != 0;
  p.device_memory = (able & kDeviceMemory) != 0;
  p.worker = r.owned_bytes();
  const auto count = r.value<std::uint32_t>();
  for (std::uint32_t i = 0; i < count; ++i) {
    RailAddress& rail = p.rails.emplace_back();
    rail.network = r.text();
    rail.machine = r.text();
    rail.worker = r.owned_bytes();
  }
  return p;
}

std::vector<RailPair> rails_between(const PeerAddress& self, const PeerAddress& peer) {
  std::vector<RailPair> pairs;
  if (self.host_id == peer.host_id) return pairs;
  for (std::size_t i = 0; i < self.rails.size(); ++i) {
    for (std::size_t k = 0; k < peer.rails.size() && pairs.size() < kMostRails; ++k) {
      const RailAddress& here = self.rails[i];
      const RailAddress& there = peer.rails[k];
      if (here.network == there.network && here.machine != there.machine) pairs.push_back({i, k});
    }
  }
  return pairs.size() < 2 ? std::vector<RailPair>{} : pairs;
}

}  // namespace sinew::ucx
