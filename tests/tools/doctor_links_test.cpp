#include <algorithm>
#include <cerrno>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/tools/info/doctor/links/link_checks.hpp>

#include "doctor_ways.hpp"

namespace sinew::doctor {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

/// Breaks the ways that `which` picks.
template <class Which>
std::vector<LinkResult> broken(std::vector<LinkResult> results, Which which, int error = ETIMEDOUT) {
  for (LinkResult& r : results) {
    if (which(r)) break_way(r, error, error == ETIMEDOUT ? "Connection timed out" : "Invalid argument");
  }
  return results;
}
bool touches(const LinkResult& r, int host) { return r.from_host == host || r.to_host == host; }
bool is_in(const LinkResult& r, int net) { return r.link.from.interface == fmt::format("eth{}", net); }

TEST(DoctorLinks, AreFine_WhereAllCarry) {
  const auto found = check_links(host_names(3), mesh(3));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].severity, Severity::Fine);
  EXPECT_EQ(found[0].found, "6 ways carry: 100 MB/s to 100 MB/s, round trips of 50 us to 50 us");
}

TEST(DoctorLinks, Warn_WhereOneDirectionDoesNotWork_AndFailWhereItLeadsToRank0) {
  const auto from_to = [](int from, int to) {
    return [=](const LinkResult& r) { return r.from_host == from && r.to_host == to && is_in(r, 0); };
  };
  const auto is_broken = from_to(0, 2);
  const auto found = check_links(host_names(3), broken(mesh(3), is_broken));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].severity, Severity::Warns);
  EXPECT_EQ(found[0].found,
            "n0 eth0 (10.0.0.1) -> n2 eth0 (10.0.0.3): no answer; the way back works, and tcp connects by it; ucx and "
            "ofi may not");
  const auto to_meeting = check_links(host_names(3), broken(mesh(3), from_to(2, 0)));
  ASSERT_EQ(to_meeting.size(), 1u);
  EXPECT_EQ(to_meeting[0].severity, Severity::Fails);
  EXPECT_THAT(found[0].cure, AllOf(HasSubstr("firewall"), HasSubstr("ip route get 10.0.0.3 from 10.0.0.1")));
  EXPECT_THAT(found[0].hosts, ElementsAre("n0", "n2"));
  const auto joined = check_links(host_names(3), broken(mesh(3, 2), is_broken));
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_EQ(joined[0].severity, Severity::Warns);
  EXPECT_THAT(joined[0].found, HasSubstr("another network joins the two"));
}

TEST(DoctorLinks, Fail_WhereEachOfTwoNetworksCarriesOneDirectionOnly) {
  const auto found = check_links(
      host_names(2), broken(mesh(2, 2), [](const LinkResult& r) { return r.from_host == (is_in(r, 0) ? 0 : 1); }));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(std::ranges::count(found, Severity::Fails, &Finding::severity), 1) << "the way to rank 0";
}

TEST(DoctorLinks, NameADeadHostOnce) {
  const auto found = check_links(host_names(4), broken(mesh(4, 2), [](const LinkResult& r) { return touches(r, 2); }));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].severity, Severity::Fails);
  EXPECT_EQ(found[0].found, "n2: none of its 12 ways to and from other hosts carries: no answer");
  EXPECT_THAT(found[0].hosts, ElementsAre("n2"));
}

TEST(DoctorLinks, NameWaysBesideADeadHost_WhereItsEndsAreReachedByOthers) {
  const auto found = check_links(host_names(4), broken(mesh(4), [](const LinkResult& r) {
                                   return touches(r, 2) || (r.from_host == 0 && r.to_host == 1);
                                 }));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_THAT(found[0].found, HasSubstr("n2: none of its 6 ways"));
  EXPECT_THAT(found[1].found, HasSubstr("n0 eth0 (10.0.0.1) -> n1 eth0 (10.0.0.2): no answer"));
}

TEST(DoctorLinks, NameADeadRailOnce_AsAWarningWhereAnotherJoinsTheHosts) {
  auto results = broken(mesh(3, 2), [](const LinkResult& r) { return is_in(r, 1) && r.to_host == 2; });
  results = broken(
      results, [](const LinkResult& r) { return is_in(r, 1) && r.from_host == 2; }, EINVAL);
  const auto found = check_links(host_names(3), results);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].severity, Severity::Warns);
  EXPECT_EQ(
      found[0].found,
      "n2 eth1 (10.1.0.3): none of its 4 ways to and from other hosts carries: out of it Invalid argument; into it "
      "no answer; other networks join the hosts");
  EXPECT_THAT(found[0].cure, AllOf(HasSubstr("from 10.1.0.3"), HasSubstr("leave eth1 out with SINEW_INTERFACE")));
  EXPECT_THAT(found[0].hosts, ElementsAre("n2"));
  const auto only = check_links(host_names(3), broken(results, [](const LinkResult& r) {
                                  return is_in(r, 0) && r.from_host == 0 && r.to_host == 2;
                                }));
  ASSERT_EQ(only.size(), 2u);
  EXPECT_TRUE(would_fail(std::span(only).first(1))) << "it is needed between n0 and n2";
}

TEST(DoctorLinks, NameAnInterfaceThatNobodyReaches_OrThatReachesNobody) {
  const auto in = check_links(host_names(3), broken(mesh(3), [](const LinkResult& r) { return r.to_host == 2; }));
  ASSERT_EQ(in.size(), 1u);
  EXPECT_EQ(in[0].found, "n2 eth0 (10.0.0.3): none of its 2 ways from other hosts carries: no answer");
  const auto out = check_links(host_names(3), broken(mesh(3), [](const LinkResult& r) { return r.from_host == 2; }));
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].found, "n2 eth0 (10.0.0.3): none of its 2 ways to other hosts carries: no answer");
}

TEST(DoctorLinks, NameADeadNetworkOnce) {
  const auto found = check_links(host_names(3), broken(mesh(3, 2), [](const LinkResult& r) { return is_in(r, 1); }));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].severity, Severity::Warns);
  EXPECT_THAT(found[0].found, HasSubstr("the network of eth1 (10.1.0.1): none of its 6 ways carries: no answer"));
  EXPECT_THAT(found[0].hosts, ElementsAre("n0", "n1", "n2"));
}

TEST(DoctorLinks, BlameNeitherOfTwoHosts) {
  const auto found = check_links(host_names(2), broken(mesh(2), [](const LinkResult&) { return true; }));
  ASSERT_EQ(found.size(), 2u);
  for (const Finding& f : found) EXPECT_THAT(f.hosts, ElementsAre(testing::_, testing::_)) << f.found;
}

TEST(DoctorLinks, TellRefusalsRoutesAndStrangersApart) {
  auto results = mesh(3);
  const auto cure = [&](int error, const std::string& why) {
    break_way(results[0], error, why);
    const auto found = check_links(host_names(3), results);
    return found[0].found + " / " + found[0].cure;
  };
  EXPECT_THAT(cure(ECONNREFUSED, "Connection refused"),
              AllOf(HasSubstr("Connection refused"), HasSubstr("SINEW_PORTS")));
  EXPECT_THAT(cure(EHOSTUNREACH, "No route to host"), HasSubstr("a route leads nowhere"));
  EXPECT_THAT(cure(0, "closed"), AllOf(HasSubstr("is not the job's: closed"), HasSubstr("SINEW_INTERFACE")));
}

TEST(DoctorLinks, NameThePacketsThatPass_WhereLongOnesAreLost) {
  auto results = mesh(3);
  results[0].state = LinkState::SmallOnly;
  results[0].link.from.mtu_bytes = 9000;
  results[0].passing_bytes = 1450;
  const auto found = check_links(host_names(3), results);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].severity, Severity::Fails);
  EXPECT_THAT(found[0].found, HasSubstr("packets of the MTU (9000) are lost, those of 1450 arrive"));
  EXPECT_THAT(found[0].cure, HasSubstr("ip link set eth0 mtu 1450"));
  results[0].passing_bytes = 0;
  EXPECT_THAT(check_links(host_names(3), results)[0].found, HasSubstr("so are shorter ones"));
}

TEST(DoctorLinks, Fail_WhereTwoHostsHaveNoWayToTry) {
  const std::vector<LinkResult> only{way(0, 1), way(1, 0), way(1, 2), way(2, 1)};
  const auto found = check_links(host_names(3), only);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].severity, Severity::Fails);
  EXPECT_THAT(found[0].found, HasSubstr("n0 and n2 have no interfaces"));
}

TEST(DoctorLinks, NameAHostWithoutAnyWayOnce) {
  const auto found = check_links(host_names(4), mesh(3));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].severity, Severity::Fails);
  EXPECT_EQ(found[0].found, "n3 has no interface that is up and could reach any other host");
  EXPECT_THAT(found[0].hosts, ElementsAre("n3"));
}

TEST(DoctorLinks, Warn_OfASlowWay_AndOfAnInterfaceThatIsSlowToAllOnce) {
  auto results = mesh(3);
  results[0].bytes_per_s = 0.49e8;
  auto found = check_links(host_names(3), results);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].severity, Severity::Warns);
  EXPECT_THAT(found[0].found, HasSubstr("n0 eth0 (10.0.0.1) -> n1 eth0 (10.0.0.2): 49 MB/s"));
  results[1].bytes_per_s = 0.2e8;
  found = check_links(host_names(3), results);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_THAT(found[0].found,
              AllOf(HasSubstr("n0 eth0 (10.0.0.1): all its 2 ways to other hosts are slow"), HasSubstr("20 MB/s")));
  EXPECT_THAT(found[0].hosts, ElementsAre("n0"));
  EXPECT_THAT(found[0].found, Not(HasSubstr("49 MB/s"))) << "the worst speaks for all";
}

TEST(DoctorLinks, OfAHostToItself_OnlyWarn) {
  LinkResult stranger = way(0, 0);
  break_way(stranger, ECONNREFUSED, "Connection refused");
  const std::vector<LinkResult> results{way(0, 0, 1), stranger};
  const auto found = check_own_links("n0", results);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].severity, Severity::Warns);
  EXPECT_THAT(found[0].found, HasSubstr("eth0 (10.0.0.1) from this host itself: Connection refused"));
  EXPECT_EQ(check_own_links("n0", std::span(results).first(1))[0].severity, Severity::Fine);
}

}  // namespace
}  // namespace sinew::doctor
