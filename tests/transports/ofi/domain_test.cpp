#include <netinet/in.h>
#include <rdma/fi_domain.h>

#include <deque>
#include <set>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include <sinew/transports/ofi/provider/domain.hpp>

namespace sinew::test {
namespace {

constexpr const char* kVerbs = "verbs;ofi_rxm";
constexpr const char* kTcp = "tcp;ofi_rxm";

/// What libfabric might offer, in its order.
class Offers {
 public:
  struct Row {
    const char* provider;
    const char* network;
    const char* domain;
    std::uint32_t ipv4 = 0;  ///< in host order; 0: an address that is none of IP
    int bus = -1;            ///< of PCI; -1: the provider does not say
  };

  explicit Offers(std::initializer_list<Row> rows) {
    for (const Row& row : rows) add(row);
  }
  const fi_info* list() const { return &offers_.front().info; }
  /// The domain that is taken; "none".
  std::string taken(const ofi::Wish& wish) const {
    const fi_info* best = ofi::best_of(list(), wish);
    return best == nullptr ? "none" : best->domain_attr->name;
  }

 private:
  struct Offer {
    fi_info info{};
    fi_fabric_attr fabric{};
    fi_domain_attr domain{};
    sockaddr_in address{};
    fid_nic nic{};
    fi_bus_attr bus{};
    std::string names[3];
  };

  void add(const Row& row) {
    Offer& o = offers_.emplace_back();
    o.names[0] = row.provider;
    o.names[1] = row.network;
    o.names[2] = row.domain;
    o.fabric.prov_name = o.names[0].data();
    o.fabric.name = o.names[1].data();
    o.domain.name = o.names[2].data();
    o.info.fabric_attr = &o.fabric;
    o.info.domain_attr = &o.domain;
    if (row.ipv4 != 0) {
      o.address.sin_family = AF_INET;
      o.address.sin_addr.s_addr = htonl(row.ipv4);
      o.info.addr_format = FI_SOCKADDR_IN;
      o.info.src_addr = &o.address;
    }
    if (row.bus >= 0) {
      o.bus.bus_type = FI_BUS_PCI;
      o.bus.attr.pci = {0, static_cast<std::uint8_t>(row.bus), 0, 0};
      o.nic.bus_attr = &o.bus;
      o.info.nic = &o.nic;
    }
    if (offers_.size() > 1) offers_[offers_.size() - 2].info.next = &o.info;
  }

  std::deque<Offer> offers_;
};

NicName nic(const std::string& interface, const std::string& device, const std::string& pci) {
  return {interface, device, pci, "test", false};
}

const Offers& eight_rails() {
  static const Offers rails{
      {kVerbs, "IB-0xfe80", "mlx5_0", 0, 0x18},  {kVerbs, "IB-0xfe80", "mlx5_3", 0, 0x40},
      {kVerbs, "IB-0xfe80", "mlx5_1", 0, 0x29},  {kVerbs, "IB-0xfe80", "mlx5_10", 0, 0xce},
      {kVerbs, "IB-0xfe80", "mlx5_11", 0, 0xdc}, {"tcp;ofi_rxm", "10.0.0.0/24", "eth0", 0x0a000001}};
  return rails;
}

TEST(OfiDomain, IsTheNearestNics_ByPciAddress) {
  EXPECT_EQ(eight_rails().taken({.provider = kVerbs, .nic = nic("ibp206s0", "mlx5_10", "0000:ce:00.0")}), "mlx5_10");
  EXPECT_EQ(eight_rails().taken({.provider = kVerbs, .nic = nic("a", "renamed", "0000:40:00.0")}), "mlx5_3");
  EXPECT_EQ(eight_rails().taken({.provider = kVerbs}), "mlx5_0") << "the control: nobody wishes";
}

TEST(OfiDomain, IsTheNearestNics_ByName) {
  const Offers nameless{{kVerbs, "n", "mlx5_0"}, {kVerbs, "n", "mlx5_10"}, {kVerbs, "n", "mlx5_1"}};
  EXPECT_EQ(nameless.taken({.nic = nic("ib1", "mlx5_1", "0000:29:00.0")}), "mlx5_1");
  const Offers efa{{"efa", "efa", "rdmap0s6-rdm"}, {"efa", "efa", "rdmap0s60-rdm"}, {"efa", "efa", "rdmap1s6-rdm"}};
  EXPECT_EQ(efa.taken({.nic = nic("x", "rdmap1s6", "")}), "rdmap1s6-rdm");
  EXPECT_EQ(efa.taken({.nic = nic("x", "rdmap0s60", "")}), "rdmap0s60-rdm");
  const Offers tcp{{"tcp;ofi_rxm", "10.0.0.0/24", "eth0", 0x0a000001},
                   {"tcp;ofi_rxm", "10.0.0.0/24", "eth1", 0x0a000002}};
  EXPECT_EQ(tcp.taken({.nic = nic("eth1", "", "0000:01:00.1")}), "eth1");
}

TEST(OfiDomain, IsTheFirstThatLeadsFurthest_WhereTheNearestIsNotOffered) {
  EXPECT_EQ(eight_rails().taken({.provider = kVerbs, .nic = nic("ib9", "mlx5_9", "0000:c3:00.0")}), "mlx5_0");
  const Offers tcp{{"tcp;ofi_rxm", "127.0.0.0/8", "lo", 0x7f000001},
                   {"tcp;ofi_rxm", "10.0.0.0/24", "eth0", 0x0a000001}};
  EXPECT_EQ(tcp.taken({}), "eth0");
  EXPECT_EQ(tcp.taken({.nic = nic("lo", "", "")}), "eth0") << "loopback leads nowhere";
}

/// A rank on eth1 alone would not reach those on eth0.
TEST(OfiDomain, StaysInTheNetworkThatAllTake) {
  const Offers apart{{"tcp;ofi_rxm", "10.0.0.0/24", "eth0", 0x0a000001},
                     {"tcp;ofi_rxm", "10.0.1.0/24", "eth1", 0x0a000101}};
  EXPECT_EQ(apart.taken({.nic = nic("eth1", "", "0000:01:00.1")}), "eth0");
  EXPECT_EQ(apart.taken({.interfaces = "eth1", .nic = nic("eth1", "", "0000:01:00.1")}), "eth1") << "unless told to";
  NicName with_all = nic("eth1", "", "0000:01:00.1");
  with_all.one_network = true;
  EXPECT_EQ(apart.taken({.nic = with_all}), "eth1") << "or where the others are";
}

TEST(OfiDomain, IsOneOfTheInterfacesThatTheUserNames) {
  EXPECT_EQ(eight_rails().taken({.provider = kVerbs, .interfaces = "mlx5_3,mlx5_11"}), "mlx5_3");
  EXPECT_EQ(
      eight_rails().taken(
          {.provider = kVerbs, .interfaces = "mlx5_3,mlx5_11", .nic = nic("ibp220s0", "mlx5_11", "0000:dc:00.0")}),
      "mlx5_11");
  EXPECT_EQ(eight_rails().taken({.provider = kVerbs, .interfaces = "mlx5_9"}), "none");
  // By the name of its interface, which the domain does not have.
  EXPECT_EQ(eight_rails().taken(
                {.provider = kVerbs, .interfaces = "eth0,ibp220s0", .nic = nic("ibp220s0", "mlx5_11", "0000:dc:00.0")}),
            "mlx5_11");
  EXPECT_EQ(eight_rails().taken({.interfaces = "eth0,eth1"}), "eth0");
}

TEST(OfiDomain, OfEachRanksOwn_LeavesNoneIdle) {
  std::set<std::string> taken;
  for (const auto& [device, pci] : {std::pair("mlx5_0", "0000:18:00.0"), std::pair("mlx5_3", "0000:40:00.0"),
                                    std::pair("mlx5_10", "0000:ce:00.0"), std::pair("mlx5_11", "0000:dc:00.0")})
    taken.insert(eight_rails().taken({.provider = kVerbs, .nic = nic("", device, pci)}));
  EXPECT_EQ(taken.size(), 4U);
}

/// The domains of further rails beside the one that best_of takes, with spaces between.
std::string further(const Offers& offers, const ofi::Wish& wish) {
  std::string all;
  for (const fi_info* rail : ofi::further_rails(offers.list(), *ofi::best_of(offers.list(), wish), wish)) {
    all += std::string(all.empty() ? "" : " ") + rail->domain_attr->name;
  }
  return all;
}

TEST(OfiRails, AreTheOtherNetworksOfTcp) {
  const Offers offers{{kTcp, "10.0.1.0/24", "wire1", 0x0a000101},
                      {kTcp, "10.0.2.0/24", "wire2", 0x0a000201},
                      {kTcp, "fe80::/64", "wire2"},
                      {kTcp, "127.0.0.0/8", "lo", 0x7f000001},
                      {kTcp, "10.0.2.0/24", "wire3", 0x0a000202},
                      {kTcp, "10.0.4.0/24", "wire1", 0x0a000401},
                      {kTcp, "10.0.5.0/24", "wire5", 0x0a000501}};
  EXPECT_EQ(further(offers, {}), "wire2 wire5") << "each network and each interface once";
  EXPECT_EQ(further(offers, {.interfaces = "wire1,wire5"}), "wire5");
  EXPECT_EQ(further(offers, {.interfaces = "wire1"}), "");
  EXPECT_EQ(further(offers, {.interfaces = "lo,wire2"}), "") << "loopback leads to no other host";
}

TEST(OfiRails, AreAtMostFour) {
  const Offers offers{{kTcp, "n1", "w1", 0x0a000101},
                      {kTcp, "n2", "w2", 0x0a000201},
                      {kTcp, "n3", "w3", 0x0a000301},
                      {kTcp, "n4", "w4", 0x0a000401},
                      {kTcp, "n5", "w5", 0x0a000501}};
  EXPECT_EQ(further(offers, {}), "w2 w3 w4");
}

TEST(OfiRails, AreNone_OfRdmaProviders) {
  const Offers offers{{kVerbs, "n1", "mlx5_0", 0x0a000101}, {kVerbs, "n2", "mlx5_1", 0x0a000201}};
  EXPECT_EQ(further(offers, {}), "") << "there each rank has its own NIC";
}

}  // namespace
}  // namespace sinew::test
