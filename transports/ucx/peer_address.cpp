#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/core/wire.hpp>
#include <sinew/transports/ucx/peer_address.hpp>

namespace sinew::ucx {
namespace {

constexpr std::uint64_t kMagic = 0x31'78'63'75'77'65'6e'73;  // "snewucx1"

}  // namespace

Address PeerAddress::encode() const {
  WireWriter w;
  w.value(kMagic).value(rank).value(instance).value(process).text(host_id).value(leads_elsewhere).bytes(worker);
  return w.take();
}

PeerAddress PeerAddress::decode(const Address& bytes) {
  WireReader r(bytes);
  if (bytes.size() < sizeof kMagic || r.value<std::uint64_t>() != kMagic) {
    throw Error(Code::Mismatch, fmt::format("{} bytes that are not the address of a ucx transport", bytes.size()));
  }
  PeerAddress p;
  p.rank = r.value<std::int32_t>();
  p.instance = r.value<std::uint64_t>();
  p.process = r.value<std::uint64_t>();
  p.host_id = r.text();
  p.leads_elsewhere = r.value<bool>();
  p.worker = r.owned_bytes();
  return p;
}

}  // namespace sinew::ucx
