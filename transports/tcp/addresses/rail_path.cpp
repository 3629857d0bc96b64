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

}  // namespace

std::vector<RailPath> rails_between(const PeerAddress& self, const PeerAddress& peer) {
  std::vector<RailPath> rails;
  if (self.host_id == peer.host_id) return rails;
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
  return rails.size() < 2 ? std::vector<RailPath>{} : rails;
}

}  // namespace sinew::tcp
