#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/base/name_list.hpp>
#include <sinew/topology/catalog/named_machines.hpp>
#include <sinew/topology/cluster/nearest_nic.hpp>

namespace sinew {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr double kGbit = 1e9 / 8;

/// `pci` empty: a virtual one.
Nic interface(const std::string& name, const std::string& pci, double gbit) {
  Nic nic{.name = name, .up = true, .running = true, .pci = pci};
  nic.bytes_per_s = gbit > 0 ? Figure::of(gbit * kGbit, "test") : Figure::unknown("test");
  return nic;
}

Nic with_rdma(Nic nic, const std::string& device, RdmaState state = RdmaState::Active) {
  nic.rdma = {device, 1, state, ""};
  return nic;
}

Machine machine_with(std::vector<Nic> nics) {
  Machine machine;
  machine.nics = std::move(nics);
  return machine;
}

std::vector<std::string> usable(const Machine& machine, std::string_view interfaces = {}) {
  std::vector<std::string> names;
  for (const int n : nics_for_ranks(machine, interfaces))
    names.push_back(machine.nics[static_cast<std::size_t>(n)].name);
  return names;
}

/// What ranks on these parts get, one after the other; "": on none in particular.
std::vector<std::string> dealt(const Machine& machine, const std::vector<std::string>& parts) {
  const std::vector<int> nics = nics_for_ranks(machine);
  NicAssigner assigner(machine);
  std::vector<std::string> names;
  for (const std::string& part : parts) {
    const std::vector<std::string> near(part.empty() ? 0 : 1, part);
    names.push_back(machine.nics.at(static_cast<std::size_t>(assigner.assign(near, nics).nic)).name);
  }
  return names;
}

std::vector<std::string> gpus(int count) {
  std::vector<std::string> parts;
  for (int g = 0; g < count; ++g) parts.push_back("gpu:" + std::to_string(g));
  return parts;
}

TEST(NameList, HoldsWholeNamesOnly) {
  EXPECT_TRUE(is_among("eth0,eth1", "eth1"));
  EXPECT_TRUE(is_among("eth0", "eth0"));
  EXPECT_FALSE(is_among("eth10,eth11", "eth1"));
  EXPECT_FALSE(is_among("eth0,,eth1", ""));
  EXPECT_FALSE(is_among("", "eth0"));
}

TEST(NicsForRanks, AreTheFastestThatRun) {
  Nic down = with_rdma(interface("ib2", "0000:03:00.0", 200), "mlx5_2", RdmaState::Down);
  down.running = false;
  Nic loopback = interface("lo", "", 0);
  loopback.loopback = true;
  const Machine m = machine_with({loopback, interface("eth0", "0000:01:00.0", 10), interface("docker0", "", 800),
                                  with_rdma(interface("ib0", "0000:02:00.0", 200), "mlx5_0"), down,
                                  with_rdma(interface("ib1", "0000:02:00.1", 200), "mlx5_1")});
  EXPECT_THAT(usable(m), ElementsAre("ib0", "ib1"));
}

TEST(NicsForRanks, HaveRdma_WhereThisProcessMayUseIt) {
  Machine m = machine_with(
      {interface("eth0", "0000:01:00.0", 100), with_rdma(interface("eth1", "0000:02:00.0", 100), "mlx5_0")});
  EXPECT_THAT(usable(m), ElementsAre("eth1"));
  m.unseen = {{"RDMA device mlx5_0: this process cannot use it", "/dev/infiniband/uverbs0 is not in this container"}};
  EXPECT_THAT(usable(m), ElementsAre("eth0", "eth1"));
}

TEST(NicsForRanks, ArePortsWithoutAnInterfaceInUse) {
  Nic no_address = with_rdma(interface("ib0", "0000:01:00.0", 200), "mlx5_0");
  no_address.up = no_address.running = false;
  const Nic port = with_rdma(interface("mlx5_1:1", "0000:02:00.0", 200), "mlx5_1");
  Machine m = machine_with({interface("eth0", "0000:03:00.0", 10), no_address, port});
  EXPECT_THAT(usable(m), ElementsAre("ib0", "mlx5_1:1"));
  m.unseen = {{"RDMA devices: whether this process can use them", "no libibverbs.so.1"}};
  EXPECT_THAT(usable(m), ElementsAre("eth0")) << "nothing else carries data without RDMA";
}

TEST(NicsForRanks, AreOneAlone_WhereNoneHasAPlaceOnPci) {
  EXPECT_THAT(usable(machine_with({interface("eth0", "", 0), interface("veth1", "", 0)})), ElementsAre("eth0"));
  EXPECT_THAT(usable(machine_with({interface("eth0", "", 10), interface("eth1", "", 25)})), ElementsAre("eth1"));
  EXPECT_THAT(usable(machine_with({})), IsEmpty());
}

TEST(NicsForRanks, AreThoseThatTheUserNames) {
  Nic loopback = interface("lo", "", 0);
  loopback.loopback = true;
  const Machine m = machine_with({loopback, with_rdma(interface("ib0", "0000:02:00.0", 200), "mlx5_0"),
                                  interface("eth0", "0000:01:00.0", 10), interface("eth1", "0000:01:00.1", 10),
                                  interface("veth0", "", 10)});
  EXPECT_THAT(usable(m, "eth0,eth1"), ElementsAre("eth0", "eth1"));
  EXPECT_THAT(usable(m, "veth0,eth1"), ElementsAre("eth1", "veth0"));
  EXPECT_THAT(usable(m, "eth0,ib0"), ElementsAre("ib0"));
  EXPECT_THAT(usable(m, "mlx5_0"), ElementsAre("ib0"));
  EXPECT_THAT(usable(m, "lo"), ElementsAre("lo"));
  EXPECT_THAT(usable(m, "eth9"), IsEmpty());
}

/// By the user guides' tables of which card is beside which GPU.
TEST(NicAssigner, GivesEachGpuItsOwn) {
  EXPECT_THAT(dealt(named_machine("dgx-h100"), gpus(8)), ElementsAre("mlx5_0:1", "mlx5_3:1", "mlx5_4:1", "mlx5_5:1",
                                                                     "mlx5_6:1", "mlx5_9:1", "mlx5_10:1", "mlx5_11:1"));
  EXPECT_THAT(dealt(named_machine("dgx-h100"), {"gpu:6", "gpu:1"}), ElementsAre("mlx5_10:1", "mlx5_3:1"));
}

TEST(NicAssigner, GivesAnotherOfTheSocket_WhereTheNearestIsDown) {
  Machine m = named_machine("dgx-h100");
  m.nics[2].rdma.state = RdmaState::Down;
  m.nics[2].up = m.nics[2].running = false;
  const std::vector<std::string> names = dealt(m, gpus(8));
  EXPECT_THAT(names[2], testing::AnyOf("mlx5_0:1", "mlx5_3:1", "mlx5_5:1"));
  EXPECT_EQ(names[3], "mlx5_5:1");
  EXPECT_EQ(names[7], "mlx5_11:1");
}

TEST(NicAssigner, GoesBySocket_WhereThereAreNoGpus) {
  EXPECT_THAT(dealt(named_machine("xeon-2s"), {"numa:1", "numa:0", "numa:1", "numa:1"}),
              ElementsAre("eth1", "eth0", "eth1", "eth1"));
}

TEST(NicAssigner, TakesTurns_WhereAllAreAsNear) {
  EXPECT_THAT(dealt(named_machine("xeon-2s"), {"", "", "", ""}), ElementsAre("eth0", "eth1", "eth0", "eth1"));
  EXPECT_THAT(dealt(named_machine("xeon-2s"), {"numa:0", "", "numa:0", ""}),
              ElementsAre("eth0", "eth1", "eth0", "eth1"));
}

TEST(NicAssigner, SaysWhy) {
  const Machine m = named_machine("dgx-h100");
  NicAssigner assigner(m);
  EXPECT_EQ(assigner.assign(std::vector<std::string>{"gpu:0"}, nics_for_ranks(m)).why, "PIX from gpu:0");
  EXPECT_EQ(assigner.assign(std::vector<std::string>{"numa:0", "numa:1"}, std::vector{5}).why,
            "PHB from numa:0 or numa:1");
  EXPECT_EQ(assigner.assign({}, nics_for_ranks(m)).why, "one of 8 that are as near");
  EXPECT_EQ(assigner.assign({}, std::vector{3}).why, "the only choice");
  const NicAssigner::Assignment none = assigner.assign({}, {});
  EXPECT_EQ(none.nic, -1);
  EXPECT_THAT(none.why, HasSubstr("no NIC"));
}

}  // namespace
}  // namespace sinew
