#include <cstddef>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/topology/discover/rdma_access.hpp>
#include <sinew/topology/discover/verbs.hpp>

#if __has_include(<infiniband/verbs.h>)
#include <infiniband/verbs.h>
#define SINEW_HAS_VERBS_HEADER
#endif

namespace sinew {
namespace {

/// The library that is installed here, if one is: no device of it, but its own functions.
TEST(Verbs, HaveTheirSymbols_WhereTheLibraryIsInstalled) {
  const auto loaded = verbs::load();
  if (const auto* why = std::get_if<std::string>(&loaded)) {
    EXPECT_THAT(*why, testing::StartsWith("no libibverbs: ")) << "it is there, but a function is not";
    GTEST_SKIP() << *why;
  }
  Machine m;
  m.nics = {{.name = "fake0:1", .rdma = {"fake0", 1}}};
  read_rdma_access("/nonexistent", m);
  ASSERT_EQ(m.unseen.size(), 1u);
  EXPECT_EQ(m.unseen[0].what, "RDMA device fake0: this process cannot use it");
  EXPECT_THAT(m.unseen[0].why, testing::HasSubstr("module ib_uverbs"));
}

TEST(Verbs, AreNotLoaded_WhereThereIsNoDevice) {
  Machine m;
  m.nics = {{.name = "eth0"}};
  read_rdma_access("/nonexistent", m);
  EXPECT_TRUE(m.unseen.empty());
}

#ifdef SINEW_HAS_VERBS_HEADER
TEST(Verbs, HaveTheLayoutOfTheirHeader) {
  using Ours = verbs::PortAttributes;
  EXPECT_EQ(offsetof(Ours, state), offsetof(ibv_port_attr, state));
  EXPECT_EQ(offsetof(Ours, active_mtu), offsetof(ibv_port_attr, active_mtu));
  EXPECT_EQ(offsetof(Ours, qkey_violation_count), offsetof(ibv_port_attr, qkey_viol_cntr));
  EXPECT_EQ(offsetof(Ours, sm_lid), offsetof(ibv_port_attr, sm_lid));
  EXPECT_EQ(offsetof(Ours, flags), offsetof(ibv_port_attr, flags)) << "the last that the exported function fills";
  EXPECT_EQ(128u << IBV_MTU_256, 256u);
  EXPECT_EQ(128u << IBV_MTU_4096, 4096u);
}
#endif

}  // namespace
}  // namespace sinew
