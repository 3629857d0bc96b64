#include <algorithm>

#include <sinew/transports/shm/messages/connection.hpp>

namespace sinew::shm {
namespace {

/// What the owner of the port writes for `rank`.
template <class PortType>
auto& box_for(PortType& port, const HostPeers& host, int rank) {
  const auto ranks = host.ranks();
  return port.box(static_cast<std::size_t>(std::ranges::find(ranks, rank) - ranks.begin()), ranks.size());
}

const Port& port_of(HostPeers& host, const PortAddress& a) {
  return *reinterpret_cast<const Port*>(host.memory_of(static_cast<int>(a.rank)) + a.offset);
}

}  // namespace

Connection::Connection(Hub& of_rank, const PortAddress& address)
    : hub(of_rank),
      peer(static_cast<int>(address.rank)),
      mine(box_for(*hub.port, hub.host, peer)),
      theirs(box_for(port_of(hub.host, address), hub.host, hub.rank)),
      their_port(port_of(hub.host, address)),
      their_heap(hub.host.memory_of(peer)),
      same_process(hub.host.same_process(peer)) {}

}  // namespace sinew::shm
