#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/topology/discover/network_interfaces.hpp>
#include <sinew/topology/discover/rdma_access.hpp>

#include "recorded_root.hpp"

namespace sinew {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// The RDMA ports of a recorded DGX H100, opened through the fake libibverbs.so.1, see tests/fakes/fake_verbs.cpp.
class RdmaAccess : public testing::Test {
 protected:
  Machine read(const char* fake = nullptr) const {
    Machine machine;
    machine.nics = read_rdma_ports(dgx_.sys());
    if (fake != nullptr) setenv("FAKE_VERBS", fake, 1);
    read_rdma_access(dgx_.root(), machine);
    unsetenv("FAKE_VERBS");
    return machine;
  }
  static std::uint32_t mtu(const Machine& machine, const std::string& name) {
    for (const Nic& nic : machine.nics) {
      if (nic.name == name) return nic.rdma.mtu_bytes;
    }
    ADD_FAILURE() << "no port " << name;
    return 0;
  }

  const test::RecordedRoot dgx_{TOPOLOGY_DATA "/dgx_h100.sysfs"};
};

constexpr const char* kWhat = "RDMA device mlx5_3: this process cannot use it";
constexpr const char* kAllButOne = "mlx5_0 mlx5_1 mlx5_4 mlx5_5 mlx5_6 mlx5_9 mlx5_10 mlx5_11";

TEST_F(RdmaAccess, GivesTheMtu_WhereTheDeviceOpens) {
  const Machine m = read();
  EXPECT_THAT(m.unseen, IsEmpty());
  EXPECT_EQ(mtu(m, "mlx5_0:1"), 4096u);
  EXPECT_EQ(mtu(m, "mlx5_11:1"), 4096u);
  EXPECT_EQ(mtu(m, "mlx5_1:2"), 1024u);
}

TEST_F(RdmaAccess, NamesTheNode_WhenTheContainerHasNone) {
  const auto node = dgx_.root() / "dev" / "infiniband" / "uverbs3";
  std::filesystem::remove(node);
  const Machine m = read((std::string(kAllButOne) + " mlx5_3!2").c_str());
  EXPECT_THAT(m.unseen, ElementsAre(Unseen{kWhat, "ibv_open_device: " + std::string(std::strerror(ENOENT)) + ": " +
                                                      node.string() + " is not in this container"}));
  EXPECT_EQ(mtu(m, "mlx5_3:1"), 0u);
  EXPECT_EQ(mtu(m, "mlx5_4:1"), 4096u) << "the others open";
}

TEST_F(RdmaAccess, NamesTheError_WhenTheDeviceIsForOthers) {
  const Machine m = read((std::string(kAllButOne) + " mlx5_3!13").c_str());
  EXPECT_THAT(m.unseen, ElementsAre(Unseen{kWhat, "ibv_open_device: " + std::string(std::strerror(EACCES))}));
}

TEST_F(RdmaAccess, MissesTheProvider_WhenTheDeviceIsThereAndNotListed) {
  const Machine m = read(kAllButOne);
  EXPECT_THAT(m.unseen,
              ElementsAre(Unseen{kWhat, "libibverbs has no provider for it here (Debian: ibverbs-providers)"}));
}

TEST_F(RdmaAccess, MissesTheModule_WhenTheKernelHasNoVerbsOfTheDevice) {
  std::filesystem::remove_all(dgx_.sys() / "class" / "infiniband_verbs" / "uverbs3");
  const Machine m = read(kAllButOne);
  ASSERT_EQ(m.unseen.size(), 1u);
  EXPECT_EQ(m.unseen[0].what, kWhat);
  EXPECT_THAT(m.unseen[0].why, testing::HasSubstr("module ib_uverbs"));
}

TEST_F(RdmaAccess, SaysOfEveryDeviceThatThereIsNoList) {
  const Machine m = read("none!38");
  const std::string why = "ibv_get_device_list: " + std::string(std::strerror(ENOSYS));
  EXPECT_THAT(m.unseen, testing::SizeIs(9));
  EXPECT_THAT(m.unseen, testing::Each(testing::Field(&Unseen::why, why)));
}

TEST_F(RdmaAccess, SaysOfAPortThatItHasNoMtu) {
  Machine m;
  m.nics = {{.name = "mlx5_0:7", .rdma = {"mlx5_0", 7}}};
  read_rdma_access(dgx_.root(), m);
  EXPECT_THAT(m.unseen, ElementsAre(Unseen{"MTU of RDMA port mlx5_0:7",
                                           "ibv_query_port: " + std::string(std::strerror(EINVAL))}));
}

}  // namespace
}  // namespace sinew
