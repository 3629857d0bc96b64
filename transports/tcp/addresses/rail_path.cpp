#include <sys/socket.h>

#include <algorithm>
#include <set>

#include <sinew/transports/tcp/addresses/rail_path.hpp>

namespace sinew::tcp {
namespace {

std::string machine_of(const SocketAddress& a) {
  const std::string text = a.text();
  return text.substr(0, text.rfind(':'));
}

bool share_network(const InterfaceAddress& a, const InterfaceAddress& b) {
  return a.prefix_bits == b.prefix_bits && a.network_has(b.address) && machine_of(a.address) != machine_of(b.address);
}

/// The interfaces of one network that two hosts have, each once.
std::vector<RailPath> paths_between(const PeerAddress& self, const PeerAddress& peer) {
  std::vector<RailPath> rails;
  const bool lower = self.rank < peer.rank;
  std::set<std::string> used_here, used_there;
  for (const InterfaceAddress& a : (lower ? self : peer).addresses) {
    for (const InterfaceAddress& b : (lower ? peer : self).addresses) {
      if (rails.size() == kMostRails) return rails;
      const InterfaceAddress& here = lower ? a : b;
      const InterfaceAddress& there = lower ? b : a;
      if (used_here.contains(here.interface) || used_there.contains(there.interface) || !share_network(a, b)) continue;
      used_here.insert(here.interface);
      used_there.insert(there.interface);
      rails.push_back({here, there});
    }
  }
  return rails;
}

/// Null: none of this family, or several.
const InterfaceAddress* only_address(const PeerAddress& of, int family) {
  const InterfaceAddress* only = nullptr;
  for (const InterfaceAddress& a : of.addresses) {
    if (a.address.is_loopback() || a.address.family() != family) continue;
    if (only != nullptr) return nullptr;
    only = &a;
  }
  return only;
}

/// The path between two hosts without a common network. Routing must know it.
std::vector<RailPath> routed_path(const PeerAddress& self, const PeerAddress& peer) {
  for (const int family : {AF_INET, AF_INET6}) {
    const InterfaceAddress* here = only_address(self, family);
    const InterfaceAddress* there = only_address(peer, family);
    const bool both = here != nullptr && there != nullptr;
    if (both && machine_of(here->address) != machine_of(there->address)) return {{*here, *there}};
  }
  return {};
}

}  // namespace

std::vector<RailPath> rails_between(const PeerAddress& self, const PeerAddress& peer) {
  if (self.host_id == peer.host_id) return {};
  const std::size_t streams = std::max<std::size_t>({self.streams, peer.streams, 1});
  std::vector<RailPath> paths = paths_between(self, peer);
  if (paths.empty() && streams > 1) paths = routed_path(self, peer);
  std::vector<RailPath> rails;
  for (const RailPath& path : paths) {
    const std::size_t most = (kMostRails - rails.size()) / static_cast<std::size_t>(&paths.back() - &path + 1);
    rails.insert(rails.end(), std::min(streams, most), path);
  }
  return rails.size() < 2 ? std::vector<RailPath>{} : rails;
}

}  // namespace sinew::tcp
