#include <algorithm>

#include <fmt/format.h>

#include <sinew/core/base/random.hpp>
#include <sinew/transports/shm/transport.hpp>

namespace sinew::shm {
namespace {

/// The longest eager message if ranks share cores. The receiver cannot empty the ring while the sender fills it then,
/// so longer messages are read in place.
constexpr std::uint64_t kCrowdedEagerBytes = 8 << 10;

}  // namespace

ShmTransport::ShmTransport(HostPeers& host, int rank, std::uint8_t generation)
    : hub_{.host = host, .rank = rank, .generation = generation, .salt = random_id()} {
  const std::size_t ranks = host.ranks().size();
  // Zeroed memory is a Port as it begins; constructing one would touch every page of every ring.
  hub_.port = reinterpret_cast<Port*>(host.shared_segment().allocate(Port::bytes_for(ranks), page_bytes()));
  hub_.proof = hub_.port->proof = random_id();
  hub_.port->proof_at = reinterpret_cast<std::uint64_t>(&hub_.proof);
  use({});
  for (std::uint32_t t = kTickets; t-- > 0;) hub_.free_tickets.push_back(t);
}

void ShmTransport::use(const Facts& facts) noexcept {
  // Copying through the ring needs both ranks at work at the same time.
  const bool crowded = hub_.host.ranks().size() > static_cast<std::size_t>(hub_.host.usable_cores());
  hub_.eager_bytes =
      crowded ? kCrowdedEagerBytes : std::min<std::uint64_t>(Sender::kEagerBytes, facts.messages_in_place.from);
  hub_.read_from_bytes = crowded ? 0 : facts.messages_in_place.from;
  hub_.read_to_bytes = crowded ? Lengths::kNever : facts.messages_in_place.to;
  hub_.demoted_lines =
      facts.demoted_bytes > 0 ? Frame::lines_for(std::min(facts.demoted_bytes, std::uint64_t{kFragmentBytes})) : 0;
}

const Capabilities& ShmTransport::capabilities() const noexcept {
  static const Capabilities c{.cancels_sends = true, .eager_bytes = Sender::kEagerBytes};
  return c;
}

Address ShmTransport::address() const {
  PortAddress a;
  a.salt = hub_.salt;
  a.offset = hub_.host.shared_segment().offset_of(hub_.port);
  a.rank = hub_.rank;
  return a.encode();
}

Reach ShmTransport::probe(const Address& peer) {
  const PortAddress a = PortAddress::decode(peer);
  if (a.rank < 0) return {false, "not an address of shm", {}, {}};
  if (!hub_.host.contains(static_cast<int>(a.rank)))
    return {false, fmt::format("rank {} is on another host", a.rank), {}, {}};
  return {true, {}, {0.1e-6, 0.3e-6, {{4 << 10, 5e9}, {64 << 10, 8e9}, {1 << 20, 9e9}}}, "memory"};  // not a page
}

std::unique_ptr<Endpoint> ShmTransport::connect(const Address& peer) {
  if (const Reach r = probe(peer); !r.ok) throw Error(Code::Unavailable, "shm: " + r.reason);
  return std::make_unique<ShmEndpoint>(hub_, PortAddress::decode(peer));
}

Endpoint* ShmTransport::endpoint_to(int peer) noexcept {
  const auto found = std::ranges::find(hub_.endpoints, peer, &ShmEndpoint::peer);
  return found == hub_.endpoints.end() ? nullptr : *found;
}

int ShmTransport::progress() noexcept {
  int moved = 0;
  for (ShmEndpoint* e : hub_.endpoints) moved += e->progress();
  return moved + hub_.finished.fire();
}

bool ShmTransport::active() const noexcept {
  return !hub_.finished.empty() || std::ranges::any_of(hub_.endpoints, &ShmEndpoint::active);
}

bool ShmTransport::arm() noexcept {
  if (!hub_.finished.empty()) return false;
  hub_.host.arm();
  return std::ranges::none_of(hub_.endpoints, &ShmEndpoint::can_progress);
}

}  // namespace sinew::shm
