#include <cerrno>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../../tools/info/doctor/interface_checks.hpp"
#include "../../tools/info/doctor/link_checks.hpp"
#include "../../tools/info/doctor/link_speeds.hpp"
#include "../../tools/info/doctor/tournament.hpp"

namespace sinew::doctor {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(DoctorTournament, LetsEveryTwoMeetOnce_AndNobodyTwiceInARound) {
  for (int players = 0; players <= 33; ++players) {
    std::set<std::pair<int, int>> met;
    for (int round = 0; round < tournament_rounds(players); ++round) {
      int resting = 0;
      for (int p = 0; p < players; ++p) {
        const int other = tournament_partner(round, p, players);
        resting += other < 0 ? 1 : 0;
        if (other < 0) continue;
        ASSERT_TRUE(other != p && other < players) << players << " players, round " << round << ", player " << p;
        EXPECT_EQ(tournament_partner(round, other, players), p);
        if (p > other) continue;
        EXPECT_TRUE(met.emplace(p, other).second) << p << " and " << other << " meet again";
      }
      EXPECT_EQ(resting, players % 2);
    }
    EXPECT_EQ(met.size(), static_cast<std::size_t>(players * (players - 1) / 2)) << players;
  }
}

HostAddress address(const std::string& interface, const std::string& text, unsigned prefix = 24,
                    std::uint32_t mtu = 1500) {
  return {SocketAddress::parse(text.find(':') == std::string::npos ? text + ":0" : "[" + text + "]:0"), prefix,
          interface, mtu};
}

TEST(DoctorInterfaces, AreThoseNamed_WithoutLinkLocalAddresses) {
  const std::vector<Nic> nics{
      {.name = "lo", .loopback = true, .up = true, .running = true, .addresses = {{"127.0.0.1", 8, false}}},
      {.name = "eth0",
       .up = true,
       .running = true,
       .mtu_bytes = 9000,
       .addresses = {{"10.0.0.1", 24, false}, {"fe80::1", 64, true}, {"fd00::1", 64, true}}},
      {.name = "eth1", .up = true, .running = false, .addresses = {{"10.0.1.1", 24, false}}}};
  const auto all = addresses_of(nics, "");
  ASSERT_EQ(all.size(), 4u);
  EXPECT_TRUE(all[0].loopback);
  EXPECT_EQ(all[1].text(), "eth0 (10.0.0.1)");
  EXPECT_EQ(all[2].ip(), "[fd00::1]");
  EXPECT_EQ(all[2].mtu_bytes, 9000u);
  EXPECT_FALSE(all[3].works) << "no carrier";
  EXPECT_EQ(addresses_of(nics, "eth1,eth2").size(), 1u);
}

TEST(DoctorInterfaces, LinkThoseOfOneNetwork_ElseWhatARouterMayJoin) {
  const std::vector<HostAddress> one{address("docker0", "172.17.0.1", 16), address("eth0", "10.0.0.1"),
                                     address("ib0", "10.1.0.1")};
  const std::vector<HostAddress> other{address("docker0", "172.17.0.1", 16), address("eth0", "10.0.0.2"),
                                       address("ib0", "10.1.0.2")};
  const auto links = links_between(one, other);
  ASSERT_EQ(links.size(), 2u) << "bridges of containers have the same address everywhere";
  EXPECT_EQ(links[0].to.ip(), "10.0.0.2");
  EXPECT_EQ(links[1].to.ip(), "10.1.0.2");
  const std::vector<HostAddress> far{address("docker0", "172.17.0.1", 16), address("eth0", "192.168.0.2")};
  const auto routed = links_between(one, far);
  ASSERT_EQ(routed.size(), 1u);
  EXPECT_TRUE(routed[0].routed);
  EXPECT_TRUE(links_between(one, std::vector{address("eth0", "fd00::1", 64)}).empty())
      << "no kind of address in common";
  const std::vector<std::vector<HostAddress>> others{other, far};
  EXPECT_EQ(shared_networks(one, others), 2);
}

TEST(DoctorInterfaces, WarnOfThoseThatAreDown_AndOfMtusThatDiffer) {
  std::vector<std::vector<HostAddress>> hosts{{address("eth0", "10.0.0.1", 24, 9000), address("eth1", "10.1.0.1")},
                                              {address("eth0", "10.0.0.2", 24, 1500), address("eth1", "10.1.0.2")},
                                              {address("br0", "10.9.0.1")}};
  hosts[1][1].works = false;
  hosts[1][1].mtu_bytes = 42;  // of no importance while it is down
  hosts[2][0].works = false;   // nobody else is in its network
  const std::vector<std::string> names{"n0", "n1", "n2"};
  const auto found = check_interfaces(hosts, names);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].found, "eth0 (10.0.0.2) has an MTU of 1500, others in its network have 9000");
  EXPECT_EQ(found[1].found, "eth1 (10.1.0.2) is down or has no link; n0 has eth1 (10.1.0.1) in the same network");
  EXPECT_THAT(found[1].hosts, ElementsAre("n1"));
}

const std::vector<std::string> kHosts{"n0", "n1", "n2"};

/// One direction between two of kHosts, in network `net`.
LinkResult result(int from, int to, int net = 0, double bytes_per_s = 1e8) {
  const auto of = [&](int host) {
    return address("eth" + std::to_string(net), "10." + std::to_string(net) + ".0." + std::to_string(host + 1));
  };
  return {.from_host = from,
          .to_host = to,
          .link = {of(from), of(to)},
          .state = LinkState::Carries,
          .round_trip_s = 50e-6,
          .bytes_per_s = bytes_per_s};
}
/// All directions between all of kHosts.
std::vector<LinkResult> mesh(int net = 0) {
  std::vector<LinkResult> all;
  for (int a = 0; a < 3; ++a) {
    for (int b = 0; b < 3; ++b) {
      if (a != b) all.push_back(result(a, b, net));
    }
  }
  return all;
}

TEST(DoctorLinks, AreFine_WhereAllCarry) {
  const auto found = check_links(kHosts, mesh());
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].severity, Severity::Fine);
  EXPECT_EQ(found[0].found, "6 ways carry: 100 MB/s to 100 MB/s, round trips of 50 us to 50 us");
}

TEST(DoctorLinks, Fail_WhereOneDirectionDoesNotWork_AndNoOtherNetworkJoinsTheHosts) {
  auto results = mesh();
  results[1].state = LinkState::Unreachable;  // n0 -> n2
  results[1].error = ETIMEDOUT;
  const auto found = check_links(kHosts, results);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].severity, Severity::Fails);
  EXPECT_EQ(found[0].found, "n0 eth0 (10.0.0.1) -> n2 eth0 (10.0.0.3): no answer; the way back works");
  EXPECT_THAT(found[0].cure, AllOf(HasSubstr("firewall"), HasSubstr("ip route get 10.0.0.3 from 10.0.0.1")));
  EXPECT_THAT(found[0].hosts, ElementsAre("n0", "n2"));
  for (const LinkResult& r : mesh(1)) results.push_back(r);
  const auto joined = check_links(kHosts, results);
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_EQ(joined[0].severity, Severity::Warns);
  EXPECT_THAT(joined[0].found, HasSubstr("another network joins the two"));
}

TEST(DoctorLinks, TellRefusalsRoutesAndStrangersApart) {
  auto results = mesh();
  const auto cure = [&](int error, const std::string& why) {
    results[0].state = LinkState::Unreachable;
    results[0].error = error;
    results[0].why = why;
    const auto found = check_links(kHosts, results);
    return found[0].found + " / " + found[0].cure;
  };
  EXPECT_THAT(cure(ECONNREFUSED, "Connection refused"),
              AllOf(HasSubstr("Connection refused"), HasSubstr("SINEW_PORTS")));
  EXPECT_THAT(cure(EHOSTUNREACH, "No route to host"), HasSubstr("a route leads nowhere"));
  EXPECT_THAT(cure(0, "closed"), AllOf(HasSubstr("is not the job's: closed"), HasSubstr("SINEW_INTERFACE")));
}

TEST(DoctorLinks, NameThePacketsThatPass_WhereLongOnesAreLost) {
  auto results = mesh();
  results[0].state = LinkState::SmallOnly;
  results[0].link.from.mtu_bytes = 9000;
  results[0].passing_bytes = 1450;
  const auto found = check_links(kHosts, results);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].severity, Severity::Fails);
  EXPECT_THAT(found[0].found, HasSubstr("packets of the MTU (9000) are lost, those of 1450 arrive"));
  EXPECT_THAT(found[0].cure, HasSubstr("ip link set eth0 mtu 1450"));
  results[0].passing_bytes = 0;
  EXPECT_THAT(check_links(kHosts, results)[0].found, HasSubstr("so are shorter ones"));
}

TEST(DoctorLinks, Fail_WhereTwoHostsHaveNoWayToTry) {
  const std::vector<LinkResult> only{result(0, 1), result(1, 0), result(1, 2), result(2, 1)};
  const auto found = check_links(kHosts, only);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].severity, Severity::Fails);
  EXPECT_THAT(found[0].found, HasSubstr("n0 and n2 have no interfaces"));
}

TEST(DoctorLinks, Warn_OfThoseSlowAgainstTheMedianOfTheirNetwork) {
  auto results = mesh();
  results[0].bytes_per_s = 0.49e8;
  results[1].bytes_per_s = 0.51e8;
  results[2].round_trip_s = 5e-3;
  auto slow_network = mesh(1);
  for (LinkResult& r : slow_network) r.bytes_per_s = 1e6;  // another one: may be made so
  results.insert(results.end(), slow_network.begin(), slow_network.end());
  const auto slow = slow_links(results);
  ASSERT_EQ(slow.size(), 2u);
  EXPECT_EQ(slow[0].found, "49 MB/s, the median of its network's 6 ways is 100 MB/s");
  EXPECT_EQ(slow[1].found, "a round trip takes 5 ms, the median of its network's 6 ways is 50 us");
  const auto found = check_links(kHosts, results);
  EXPECT_FALSE(would_fail(found));
  EXPECT_THAT(found[0].found, HasSubstr("n0 eth0 (10.0.0.1) -> n1 eth0 (10.0.0.2): 49 MB/s"));
}

TEST(DoctorLinks, OfAHostToItself_OnlyWarn) {
  LinkResult broken = result(0, 0);
  broken.state = LinkState::Unreachable;
  broken.error = ECONNREFUSED;
  broken.why = "Connection refused";
  const std::vector<LinkResult> results{result(0, 0, 1), broken};
  const auto found = check_own_links("n0", results);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].severity, Severity::Warns);
  EXPECT_THAT(found[0].found, HasSubstr("eth0 (10.0.0.1) from this host itself: Connection refused"));
  EXPECT_EQ(check_own_links("n0", std::span(results).first(1))[0].severity, Severity::Fine);
}

}  // namespace
}  // namespace sinew::doctor
