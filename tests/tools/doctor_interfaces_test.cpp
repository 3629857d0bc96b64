#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/tools/info/doctor/interfaces/interface_checks.hpp>
#include <sinew/tools/info/doctor/interfaces/interfaces.hpp>
#include <sinew/tools/info/doctor/interfaces/named_interfaces.hpp>

#include "doctor_ways.hpp"

namespace sinew::doctor {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

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

std::vector<Nic> nics_with_one_that_is_down() {
  std::vector<Nic> nics{{.name = "eth0", .up = true, .addresses = {{"10.0.0.1", 24, false}}},
                        {.name = "eth1", .up = false, .addresses = {{"10.0.1.1", 24, false}}},
                        {.name = "eth2", .up = true, .addresses = {{"fe80::1", 64, true}}},
                        {.name = "ib0", .up = false}};
  nics[3].rdma.device = "mlx5_0";
  return nics;
}

TEST(DoctorNamedInterfaces, AreNoMatter_WhereTheyWork) {
  const auto nics = nics_with_one_that_is_down();
  for (const char* names : {"", "eth0", "eth0,", "eth0,mlx5_0"}) {
    const NamedInterfaces named = look_at_named(nics, names);
    EXPECT_TRUE(named.any_works) << names;
    EXPECT_TRUE(named.findings.empty()) << names;
  }
}

TEST(DoctorNamedInterfaces, WarnThatTcpIsLeftOut_WhereNoneWorks) {
  const auto nics = nics_with_one_that_is_down();
  for (const char* names : {"eth9", "eth1", "eth2", "eth1,eth9", "mlx5_0"}) {
    const NamedInterfaces named = look_at_named(nics, names);
    EXPECT_FALSE(named.any_works) << names;
    ASSERT_EQ(named.findings.size(), 1u) << names;
    EXPECT_EQ(named.findings[0].severity, Severity::Warns);
    EXPECT_EQ(named.findings[0].found,
              fmt::format("SINEW_INTERFACE={}: no interface of that name is up here with an address; tcp is left out",
                          names));
    EXPECT_THAT(named.findings[0].cure, HasSubstr("names interfaces that are up: here eth0"));
  }
  EXPECT_THAT(look_at_named(nics, "eth1").findings[0].cure, HasSubstr("ip link set eth1 up"));
  EXPECT_THAT(look_at_named(nics, "eth9").findings[0].cure, testing::Not(HasSubstr("ip link set"))) << "nothing to set";
}

TEST(DoctorNamedInterfaces, WarnOfThoseThatAreLeftOut_WhereOneWorks) {
  const NamedInterfaces named = look_at_named(nics_with_one_that_is_down(), "eth1,eth0,eth9");
  EXPECT_TRUE(named.any_works);
  ASSERT_EQ(named.findings.size(), 1u);
  EXPECT_EQ(named.findings[0].found,
            "SINEW_INTERFACE=eth1,eth0,eth9: left out, as not up here with an address: eth1, eth9");
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

TEST(DoctorInterfaces, AreFine_WhereHostsAreAlike) {
  const std::vector<std::vector<HostAddress>> hosts{{address("eth0", "10.0.0.1"), address("eth0", "fd00::1", 64)},
                                                    {address("eth0", "10.0.0.2"), address("eth0", "fd00::2", 64)},
                                                    {address("eth0", "10.0.0.3")}};
  EXPECT_TRUE(check_interfaces(hosts, host_names(3)).empty()) << "n2 is joined to each eth0, if not by IPv6";
}

TEST(DoctorInterfaces, WarnOfThoseThatAreDown_AndOfMtusThatDiffer) {
  std::vector<std::vector<HostAddress>> hosts{{address("eth0", "10.0.0.1", 24, 9000), address("eth1", "10.1.0.1")},
                                              {address("eth0", "10.0.0.2", 24, 1500), address("eth1", "10.1.0.2")},
                                              {address("br0", "10.9.0.1")},
                                              {address("br0", "10.8.0.1")}};
  hosts[1][1].works = false;
  hosts[1][1].mtu_bytes = 42;  // of no importance while it is down
  hosts[2][0].works = false;   // nobody else is in its network
  const auto found = check_interfaces(hosts, host_names(4));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].found, "eth0 (10.0.0.2) has an MTU of 1500, others in its network have 9000");
  EXPECT_EQ(found[1].found, "eth1 (10.1.0.2) is down or has no link; n0 has eth1 (10.1.0.1) in the same network");
  EXPECT_EQ(found[1].severity, Severity::Warns);
  EXPECT_THAT(found[1].cure, HasSubstr("ip link set eth1 up"));
  EXPECT_THAT(found[1].hosts, ElementsAre("n1"));
}

TEST(DoctorInterfaces, WarnOfAHostThatLacksANetwork_WhereMostHaveIt) {
  std::vector<std::vector<HostAddress>> hosts{{address("eth0", "10.0.0.1"), address("eth1", "10.1.0.1")},
                                              {address("eth0", "10.0.0.2"), address("eth1", "10.1.0.2")},
                                              {address("eth0", "10.0.0.3")}};
  const auto found = check_interfaces(hosts, host_names(3));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].found, "no address in the network of eth1 (10.1.0.1) of n0, which 2 hosts share");
  EXPECT_THAT(found[0].hosts, ElementsAre("n2"));
  hosts.push_back({address("eth0", "10.0.0.4")});
  EXPECT_TRUE(check_interfaces(hosts, host_names(4)).empty()) << "half of them may be meant to be in another";
}

}  // namespace
}  // namespace sinew::doctor
