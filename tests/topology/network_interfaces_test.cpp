#include <ifaddrs.h>
#include <net/if_arp.h>
#include <netpacket/packet.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/topology/discover/network_interfaces.hpp>

namespace sinew {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

/// A folder of the shape of /sys, gone afterwards.
class FakeSysfs : public testing::Test {
 protected:
  FakeSysfs() : sys_(fs::temp_directory_path() / ("sinew-sysfs-" + std::to_string(getpid()))) {
    fs::create_directories(sys_);
  }
  ~FakeSysfs() override { fs::remove_all(sys_); }

  void file(const fs::path& path, const std::string& text) {
    fs::create_directories((sys_ / path).parent_path());
    std::ofstream(sys_ / path) << text << "\n";
  }
  void link(const fs::path& path, const fs::path& target) {
    fs::create_directories((sys_ / path).parent_path());
    fs::create_directories(sys_ / target);
    fs::create_directory_symlink(sys_ / target, sys_ / path);
  }
  void wire(const std::string& name, const std::string& megabits, const std::string& slot) {
    link("class/net/" + name + "/device", "devices/pci0000:3a/" + slot);
    link("devices/pci0000:3a/" + slot + "/subsystem", "bus/pci");
    file("devices/pci0000:3a/" + slot + "/numa_node", "1");
    file("class/net/" + name + "/address", "02:00");
    file("class/net/" + name + "/mtu", "9000");
    file("class/net/" + name + "/speed", megabits);
  }
  Nic seen(Nic nic) {
    nic.hardware_address = "02:00";
    add_sysfs_facts(nic, sys_);
    return nic;
  }

  const fs::path sys_;
};

TEST(NetworkInterfaces, ContainLoopbackFlagged) {
  std::vector<Unseen> unseen;
  std::vector<Nic> nics = read_network_interfaces(unseen);
  add_sysfs("/sys", nics);
  const auto lo = std::ranges::find(nics, "lo", &Nic::name);
  ASSERT_NE(lo, nics.end());
  EXPECT_TRUE(lo->loopback);
  EXPECT_FALSE(lo->bytes_per_s.value);
  EXPECT_EQ(lo->bytes_per_s.source, "loopback is no wire");
  const auto home = std::ranges::find(lo->addresses, "127.0.0.1", &NicAddress::text);
  ASSERT_NE(home, lo->addresses.end());
  EXPECT_EQ(home->prefix, 8);
  EXPECT_FALSE(home->v6);
  EXPECT_EQ(std::ranges::count(nics, true, &Nic::loopback), 1);
  EXPECT_TRUE(unseen.empty());
}

/// As getifaddrs lays it out: the 20 bytes go on beyond the 8 that sockaddr_ll declares.
TEST_F(FakeSysfs, IsBelievedOfInfiniBand_WhoseAddressIsLong) {
  const std::string address = "00:00:10:49:fe:80:00:00:00:00:00:00:b8:3f:d2:03:00:18:00:00";
  constexpr std::size_t kBytes = 20;
  alignas(sockaddr_ll) std::array<unsigned char, sizeof(sockaddr_ll) + kBytes> storage{};
  sockaddr_ll link{};
  link.sll_family = AF_PACKET;
  link.sll_hatype = ARPHRD_INFINIBAND;
  link.sll_halen = kBytes;
  std::memcpy(storage.data(), &link, sizeof(link));
  for (std::size_t i = 0; i < kBytes; ++i) {
    storage[offsetof(sockaddr_ll, sll_addr) + i] =
        static_cast<unsigned char>(std::stoi(address.substr(3 * i, 2), nullptr, 16));
  }
  ifaddrs entry{};
  entry.ifa_addr = reinterpret_cast<sockaddr*>(storage.data());
  Nic nic{.name = "ib0"};
  add_address(nic, entry);
  EXPECT_EQ(nic.kind, NicKind::InfiniBand);
  EXPECT_EQ(nic.hardware_address, address);
  wire("ib0", "400000", "0000:3b:00.0");
  file("class/net/ib0/address", address);
  add_sysfs_facts(nic, sys_);
  EXPECT_EQ(nic.bytes_per_s.value, 50e9) << nic.bytes_per_s.source;
}

TEST_F(FakeSysfs, GivesRateInBytesWithItsFile) {
  wire("eth7", "100000", "0000:3b:00.0");
  const Nic nic = seen({.name = "eth7", .driver = "mlx5_core"});
  EXPECT_EQ(nic.bytes_per_s, Figure::of(12.5e9, (sys_ / "class/net/eth7/speed").string()));
  EXPECT_EQ(nic.pci, "0000:3b:00.0");
  EXPECT_EQ(nic.numa_node, 1);
  EXPECT_EQ(nic.mtu_bytes, 9000u);
  EXPECT_EQ(nic.kind, NicKind::Ethernet);
}

TEST_F(FakeSysfs, SaysThatTheDriverNamesNoRate_WhenSpeedIsMinusOne) {
  wire("eth7", "-1", "0000:3b:00.0");
  const Nic nic = seen({.name = "eth7", .driver = "virtio_net"});
  EXPECT_FALSE(nic.bytes_per_s.value);
  EXPECT_THAT(nic.bytes_per_s.source, HasSubstr("says -1: the driver names no rate"));
}

TEST_F(FakeSysfs, DoesNotBelieveTheRateOfAVeth) {
  file("class/net/veth0/address", "02:00");
  file("class/net/veth0/speed", "10000");
  const Nic nic = seen({.name = "veth0", .driver = "veth"});
  EXPECT_FALSE(nic.bytes_per_s.value);
  EXPECT_EQ(nic.bytes_per_s.source, "veth is no wire, it moves as fast as what carries it");
}

TEST_F(FakeSysfs, BelievesTheRateOfABond) {
  file("class/net/bond0/address", "02:00");
  file("class/net/bond0/speed", "20000");
  EXPECT_EQ(seen({.name = "bond0", .driver = "bonding"}).bytes_per_s.value, 2.5e9);
}

TEST_F(FakeSysfs, IsNotBelieved_WhenItShowsAnotherNamespace) {
  wire("eth0", "1000", "0000:3b:00.0");
  Nic other{.name = "eth0"};
  other.hardware_address = "02:99";
  add_sysfs_facts(other, sys_);
  EXPECT_FALSE(other.bytes_per_s.value);
  EXPECT_THAT(other.bytes_per_s.source, HasSubstr("belongs to another network namespace"));
  EXPECT_EQ(other.pci, "");
}

TEST_F(FakeSysfs, TellsRoceFromInfiniBand) {
  wire("eth7", "100000", "0000:3b:00.0");
  file("devices/pci0000:3a/0000:3b:00.0/infiniband/mlx5_0/x", "");
  file("class/infiniband/mlx5_0/ports/1/link_layer", "Ethernet");
  file("class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE");
  file("class/infiniband/mlx5_0/ports/1/rate", "100 Gb/sec (4X EDR)");
  file("class/infiniband/mlx5_1/ports/1/link_layer", "InfiniBand");
  file("class/infiniband/mlx5_1/ports/1/state", "1: DOWN");
  file("class/infiniband/mlx5_1/ports/1/rate", "400 Gb/sec (4X NDR)");
  const Nic roce = seen({.name = "eth7", .driver = "mlx5_core"});
  EXPECT_EQ(roce.kind, NicKind::RoCE);
  EXPECT_EQ(roce.rdma, (RdmaPort{"mlx5_0", 1, RdmaState::Active, ""}));
  const std::vector<Nic> ports = read_rdma_ports(sys_);
  ASSERT_EQ(ports.size(), 2u);
  EXPECT_EQ(ports[0].kind, NicKind::RoCE);
  EXPECT_TRUE(ports[0].running);
  EXPECT_EQ(ports[1].kind, NicKind::InfiniBand);
  EXPECT_FALSE(ports[1].running);
  EXPECT_EQ(ports[1].bytes_per_s.value, 50e9);
}

TEST_F(FakeSysfs, AddsRdmaPortsThatHaveNoInterface) {
  file("class/infiniband/mlx5_1/ports/1/link_layer", "InfiniBand");
  file("class/infiniband/mlx5_1/ports/1/rate", "400 Gb/sec (4X NDR)");
  std::vector<Nic> nics{{.name = "eth0"}};
  add_sysfs(sys_, nics);
  ASSERT_EQ(nics.size(), 2u);
  EXPECT_EQ(nics.back().name, "mlx5_1:1");
  EXPECT_THAT(nics.front().bytes_per_s.source, HasSubstr("is not there"));
}

}  // namespace
}  // namespace sinew
