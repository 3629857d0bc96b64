#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/transports/ucx/peer_address.hpp>

namespace sinew::test {
namespace {

ucx::PeerAddress on_networks(int rank, const std::string& host, const std::vector<std::string>& networks) {
  ucx::PeerAddress p{.rank = rank, .host_id = host};
  for (const std::string& network : networks) {
    p.rails.push_back({network, network + " of " + host, Bytes(8, std::byte{1})});
  }
  return p;
}

/// The networks of the rails that one side finds, in its order.
std::vector<std::string> rails(const ucx::PeerAddress& self, const ucx::PeerAddress& peer) {
  std::vector<std::string> networks;
  for (const ucx::RailPair& pair : ucx::rails_between(self, peer)) {
    EXPECT_EQ(self.rails[pair.here].network, peer.rails[pair.there].network);
    networks.push_back(self.rails[pair.here].network);
  }
  return networks;
}

TEST(UcxRails, AreTheCommonNetworksOfTwoHosts) {
  const auto one = on_networks(0, "h1", {"a", "b", "c"});
  const auto two = on_networks(1, "h2", {"b", "a"});
  EXPECT_EQ(rails(one, two), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(rails(two, one), (std::vector<std::string>{"b", "a"})) << "each side sends over both, in any order";
}

TEST(UcxRails, AreNone_OnOneHostOrOverOneNetworkOrAnAddressThatBothHave) {
  const auto one = on_networks(0, "h1", {"a", "b"});
  EXPECT_TRUE(rails(one, on_networks(1, "h1", {"a", "b"})).empty()) << "one host";
  EXPECT_TRUE(rails(one, on_networks(1, "h2", {"a", "c"})).empty()) << "one common network: frames and data share it";
  auto bridged = on_networks(1, "h2", {"a", "b"});
  bridged.rails[1].machine = one.rails[1].machine;
  EXPECT_TRUE(rails(one, bridged).empty()) << "both are one address";
}

TEST(UcxRails, SurviveTheExchange) {
  const auto one = on_networks(3, "h1", {"a", "b"});
  const auto there = ucx::PeerAddress::decode(one.encode());
  EXPECT_EQ(there.encode(), one.encode());
  ASSERT_EQ(there.rails.size(), 2U);
  EXPECT_EQ(there.rails[1].machine, "b of h1");
  EXPECT_EQ(there.rails[1].worker, one.rails[1].worker);
}

}  // namespace
}  // namespace sinew::test
