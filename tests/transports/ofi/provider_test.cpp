#include <netinet/in.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/transports/ofi/peer_address.hpp>
#include <sinew/transports/ofi/provider/left_overs.hpp>
#include <sinew/transports/ofi/provider/provider.hpp>

#include "support/scratch_folder.hpp"
#include "transports/ofi/pair.hpp"

namespace sinew::test {
namespace {

namespace files = std::filesystem;

std::string refusal(const std::string& provider, const std::string& interface = {}) {
  try {
    static_cast<void>(ofi::choose_provider(provider, interface));
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::Unavailable);
    return e.what();
  }
  ADD_FAILURE() << provider << " on '" << interface << "' was found";
  return {};
}

TEST(OfiProvider, Unknown_SaysWhatThereIs) {
  const std::string why = refusal("carrier_pigeon");
  EXPECT_NE(why.find("SINEW_OFI_PROVIDER=carrier_pigeon"), std::string::npos) << why;
  EXPECT_NE(why.find("tcp;ofi_rxm"), std::string::npos) << why;
}

TEST(OfiProvider, UnknownInterface_SaysWhatThereIs) {
  const std::string why = refusal(kTcp, "wire9");
  EXPECT_NE(why.find("SINEW_INTERFACE=wire9"), std::string::npos) << why;
  EXPECT_NE(why.find("lo"), std::string::npos) << why;
}

TEST(OfiProvider, Interface_IsKept) {
  const ofi::Choice choice = ofi::choose_provider(kTcp, "lo");
  EXPECT_STREQ(choice.info->domain_attr->name, "lo");
  EXPECT_EQ(choice.reason, "SINEW_OFI_PROVIDER=tcp;ofi_rxm");
}

TEST(OfiProvider, InterfacesMayBeSeveral) {
  EXPECT_STREQ(ofi::choose_provider(kTcp, "wire9,lo").info->domain_attr->name, "lo");
}

TEST(OfiProvider, NearestNic_IsSaid) {
  const ofi::Choice taken = ofi::choose_provider(kTcp, "lo", {"lo", "", "", "PHB from numa:0"});
  EXPECT_TRUE(taken.is_nearest);
  EXPECT_EQ(taken.reason, "SINEW_OFI_PROVIDER=tcp;ofi_rxm; the nearest NIC (PHB from numa:0)");
  const ofi::Choice another = ofi::choose_provider(kTcp, "lo", {"wire9", "", "0000:01:00.0", "PHB from numa:0"});
  EXPECT_FALSE(another.is_nearest);
  EXPECT_STREQ(another.info->domain_attr->name, "lo");
  EXPECT_EQ(another.reason,
            "SINEW_OFI_PROVIDER=tcp;ofi_rxm; the nearest NIC, wire9, is in no network that all ranks share");
}

TEST(OfiProvider, ShmAndSockets_AreNeverChosenUnasked) {
  const ofi::Choice choice = ofi::choose_provider({}, {});
  for (const std::string_view unwanted : {"shm", "sockets", "udp;ofi_rxd"}) EXPECT_NE(choice.name(), unwanted);
  EXPECT_FALSE(choice.reason.empty());
}

TEST(OfiProvider, NoSecret_IsRefused) {
  ofi::Options o = ofi_options(0, kTcp);
  o.secret.clear();
  EXPECT_THROW(static_cast<void>(ofi::make_transport(o)), Error);
}

ofi::PeerAddress somebody(int rank, const std::string& host) {
  return {.rank = rank, .instance = static_cast<std::uint64_t>(rank), .host_id = host, .provider = kTcp, .format = 1};
}

TEST(OfiReach, NamesTheObstacle) {
  const ofi::PeerAddress self = somebody(0, "h1");
  ofi::PeerAddress peer = somebody(3, "h2");
  EXPECT_EQ(ofi::obstacle_between(self, peer), "");
  peer.provider = "efa";
  EXPECT_EQ(ofi::obstacle_between(self, peer),
            "rank 3 uses the provider efa, this rank tcp;ofi_rxm (SINEW_OFI_PROVIDER chooses)");
  EXPECT_NE(ofi::obstacle_between(self, self), "");
}

TEST(OfiReach, LoopbackLeadsOnlyToTheSameHost) {
  const auto a = ofi::make_transport([] {
    ofi::Options o = ofi_options(0, kTcp);
    o.config.interface = "lo";
    return o;
  }());
  ofi::PeerAddress peer = ofi::PeerAddress::decode(a->address());
  peer.instance ^= 1;
  EXPECT_TRUE(a->probe(peer.encode()).ok);
  peer.host_id = "another host";
  EXPECT_NE(a->probe(peer.encode()).reason.find("loopback"), std::string::npos);
}

TEST(OfiReach, ThreadsOfOneProcess_DoNotUseTheShmProvider) {
  const auto a = ofi::make_transport(ofi_options(0, kShm));
  const auto b = ofi::make_transport(ofi_options(1, kShm));
  const Reach r = a->probe(b->address());
  EXPECT_FALSE(r.ok);
  EXPECT_NE(r.reason.find("thread of this process"), std::string::npos) << r.reason;
}

/// The name of an endpoint of tcp at this address, in host order.
Bytes ipv4_name(std::uint32_t address) {
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_addr.s_addr = htonl(address);
  Bytes name(sizeof a);
  std::memcpy(name.data(), &a, sizeof a);
  return name;
}

TEST(OfiRails, OfTwoRanksAreThoseOfOneNetwork_AlikeOnBothSides) {
  ofi::PeerAddress low = somebody(0, "h1"), high = somebody(3, "h2");
  low.further = {{"net 2", ipv4_name(0x0a000201)}, {"bridge", ipv4_name(0xac110001)}, {"net 3", ipv4_name(0x0a000301)}};
  high.further = {
      {"net 3", ipv4_name(0x0a000302)}, {"bridge", ipv4_name(0xac110001)}, {"net 2", ipv4_name(0x0a000202)}};
  const auto here = ofi::rails_between(low, high), there = ofi::rails_between(high, low);
  ASSERT_EQ(here.size(), 2U) << "both have the bridge's address";
  ASSERT_EQ(there.size(), 2U);
  EXPECT_EQ(low.further[here[0].here].network, "net 2") << "in the order of the lower rank";
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(here[i].here, there[i].there);
    EXPECT_EQ(here[i].there, there[i].here);
    EXPECT_EQ(low.further[here[i].here].network, high.further[here[i].there].network);
  }
  high.host_id = "h1";
  EXPECT_TRUE(ofi::rails_between(low, high).empty()) << "one host";
}

TEST(OfiReach, Address_SurvivesTheExchange) {
  ofi::PeerAddress p = somebody(3, "h1");
  p.place = "here";
  p.name = Bytes(16, std::byte{5});
  p.further = {{"net", Bytes(16, std::byte{6})}};
  const ofi::PeerAddress q = ofi::PeerAddress::decode(p.encode());
  EXPECT_EQ(q.encode(), p.encode());
  EXPECT_EQ(q.rank, 3);
  EXPECT_EQ(q.name, p.name);
  ASSERT_EQ(q.further.size(), 1U);
  EXPECT_EQ(q.further[0].network, "net");
  EXPECT_EQ(q.further[0].name, p.further[0].name);
  EXPECT_THROW(ofi::PeerAddress::decode(Address(20)), Error);
}

TEST(OfiLeftOvers, OnlyWhatTheDeadLeftIsRemoved) {
  const ScratchFolder folder;
  const ofi::OwnName own = ofi::new_own_name();
  const std::string pid = "-" + std::to_string(::getpid()) + "-";
  const auto with_pid = [&](const std::string& other) {
    std::string owner = own.owner;
    return owner.replace(owner.find(pid), pid.size(), "-" + other + "-");
  };
  const auto create = [&](const std::string& name) { std::ofstream(folder / name) << "x"; };
  const std::vector<std::string> kept = {
      own.owner + ":" + own.serial,                 // alive
      "sinew-ofi-1" + own.owner.substr(10) + ":1",  // another pid namespace
      "12345:0:1",                                  // another program's
      "sinew-ofi-1-2:3",
      "sinew-ofi-x-y-z:1",          // no name of ours
      with_pid("999999999") + "0",  // no serial
  };
  const std::vector<std::string> removed = {
      with_pid("999999999") + ":1",  // no such process
      own.owner + "0:1",             // a process of this pid that began at another time
  };
  for (const auto* names : {&kept, &removed})
    for (const std::string& name : *names) create(name);
  EXPECT_EQ(ofi::remove_left_overs(folder / ""), 2);
  for (const std::string& name : kept) EXPECT_TRUE(files::exists(folder / name)) << name;
  for (const std::string& name : removed) EXPECT_FALSE(files::exists(folder / name)) << name;
}

}  // namespace
}  // namespace sinew::test
