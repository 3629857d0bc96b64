#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>

#include "../moved.hpp"

// What a redistribution refuses: on all ranks, whichever has the fault, and with the groups as good as before.
namespace sinew::parallel::test {
namespace {

using sinew::test::complaint;
using sinew::test::in_processes;
using sinew::test::on_threads;
using sinew::test::only;
using testing::AllOf;
using testing::HasSubstr;

using Entries = std::vector<Placements::Entry>;

/// A tensor with a buffer of its own.
struct Owned {
  Tensor tensor;
  Bytes bytes;

  Owned(TensorSpec spec, const Mesh& mesh) : tensor{std::move(spec), {}} {
    bytes.resize(local_bytes(tensor, mesh.shape(), mesh.rank()));
    tensor.buffer = {bytes.data(), bytes.size()};
  }
};

const TensorSpec kFrom{"w1", DType::F32, {8, 6}, Entries{{"tp", Shard{0, {}}}}};
const TensorSpec kTo{"w1", DType::F32, {8, 6}, Entries{{"tp", Shard{1, {}}}}};

/// What each rank of a 2 x 2 mesh is told where the call of the last one is changed; after that all can go on.
std::vector<std::string> told_where(const std::function<void(Tensor& from, Tensor& to)>& change) {
  std::vector<std::string> told(4);
  on_threads(4, only("inproc"), [&](World& world) {
    Mesh mesh(world.communicator(), Factorisation({{"tp", 2}, {"dp", 2}}));
    Owned from(kFrom, mesh), to(kTo, mesh);
    Tensor changed_from = from.tensor, changed_to = to.tensor;
    if (mesh.rank() == 3) change(changed_from, changed_to);
    told[static_cast<std::size_t>(mesh.rank())] = complaint([&] { redistribute(changed_from, changed_to, mesh); });
    redistribute(from.tensor, to.tensor, mesh);
  });
  return told;
}

TEST(Redistribute, TellsAllRanksBothTensors_WhereOneHasAnotherShape) {
  const auto told = told_where([](Tensor& from, Tensor& to) { from.shape = to.shape = {6, 8}; });
  EXPECT_EQ(told[0],
            "redistribute of 'w1' (f32 [8, 6]): tp: Shard(0) -> tp: Shard(1): rank 3 has refused it, and "
            "says why");
  EXPECT_THAT(told[1], AllOf(HasSubstr("redistribute along dp: rank 1 (0 in dp) has ''w1' (f32 [8, 6])"),
                             HasSubstr("rank 3 (1 in dp) ''w1' (f32 [6, 8])")));
  EXPECT_THAT(told[2],
              AllOf(HasSubstr("along tp: rank 2 (0 in tp) has ''w1' (f32 [8, 6])"), HasSubstr("(f32 [6, 8])")));
  EXPECT_EQ(told[3], told[2]);
}

TEST(Redistribute, TellsAllRanks_WhereOneAsksForOtherAxes) {
  const auto told = told_where([](Tensor& from, Tensor& to) {
    from.placements = Entries{{"tp", Shard{0, {}}}};
    to.placements = Entries{{"dp", Shard{0, {}}}};
    to.buffer.bytes = 4 * 6 * 4;
  });
  for (const std::string& text : told) EXPECT_NE(text, "no complaint");
  EXPECT_THAT(told[3], HasSubstr("tp: Shard(0) -> dp: Shard(0)"));
}

TEST(Redistribute, NamesTheBufferOnItsRank_AndTellsTheOthers) {
  const auto told = told_where([](Tensor& from, Tensor&) { from.buffer.bytes -= 4; });
  EXPECT_EQ(told[3],
            "redistribute of 'w1' (f32 [8, 6]): the buffer of `from` has 92 bytes, expected 96, which rank 3 holds of "
            "tp: Shard(0)");
  for (int rank = 0; rank < 3; ++rank)
    EXPECT_THAT(told[static_cast<std::size_t>(rank)], HasSubstr("rank 3 has refused it"));
}

TEST(Redistribute, NamesWhatIsWrongWithTheTensors) {
  const auto of_last = [](const std::function<void(Tensor&, Tensor&)>& change) { return told_where(change)[3]; };
  EXPECT_THAT(of_last([](Tensor&, Tensor& to) { to.name = "w2"; }),
              HasSubstr("`to` is 'w2' (f32 [8, 6]); expected the same name, dtype and shape"));
  EXPECT_THAT(of_last([](Tensor&, Tensor& to) { to.dtype = DType::I32; }), HasSubstr("`to` is 'w1' (i32 [8, 6])"));
  EXPECT_THAT(of_last([](Tensor& from, Tensor& to) { to.buffer.data = from.buffer.data; }),
              HasSubstr("the buffers of `from` and `to` overlap"));
  EXPECT_THAT(of_last([](Tensor&, Tensor& to) { to.buffer.data = nullptr; }),
              HasSubstr("the buffer of `to` is null, expected 96 bytes"));
  EXPECT_THAT(of_last([](Tensor&, Tensor& to) {
                to.buffer.place = {MemoryKind::Device, 0};
              }),
              HasSubstr("lies on device 0; expected memory of the host"));
  EXPECT_THAT(of_last([](Tensor&, Tensor& to) {
                to.placements = Entries{{"tp", Shard{5, {}}}};
              }),
              HasSubstr("redistribute of 'w1' (f32 [8, 6]): Shard(5) along tp: expected one of its 2 dimensions"));
}

TEST(PlanRedistribution, TellsAllRanks_WhereTheMeshHasNoSuchGroup) {
  on_threads(4, only("inproc"), [&](World& world) {
    const std::vector<std::string> groups{"tp"};
    Mesh mesh(world.communicator(), Factorisation({{"tp", 2}, {"dp", 2}}), groups);
    EXPECT_THAT(complaint([&] {
                  static_cast<void>(plan_redistribution(kFrom, Entries{{"dp", Shard{}}}, mesh));
                }),
                AllOf(HasSubstr("redistribute of 'w1'"), HasSubstr("no group along 'dp'"), HasSubstr("there are tp")));
    EXPECT_EQ(plan_redistribution(kFrom, {}, mesh).steps.size(), 1U);
  });
}

TEST(PlanRedistribution, TellsAllRanksOfProcesses_WhereOneHasAnotherShape) {
  in_processes(2, only("shm"), [&](World& world) {
    Mesh mesh(world.communicator(), Factorisation({{"tp", 2}}));
    TensorSpec spec = kFrom;
    if (mesh.rank() == 1) spec.shape = {8, 7};
    EXPECT_THAT(complaint([&] { static_cast<void>(plan_redistribution(spec, {}, mesh)); }),
                AllOf(HasSubstr("rank 0 has ''w1' (f32 [8, 6])"), HasSubstr("rank 1 ''w1' (f32 [8, 7])")));
  });
}

TEST(RedistributeByAPlan, RefusesOnTheSpot_ABufferOfAnotherSize) {
  on_threads(2, only("inproc"), [&](World& world) {
    Mesh mesh(world.communicator(), Factorisation({{"tp", 2}}));
    Owned from(kFrom, mesh), to(kTo, mesh);
    const auto plan = plan_redistribution(kFrom, kTo.placements, mesh);
    EXPECT_EQ(complaint([&] { redistribute(plan, from.tensor.buffer, to.tensor.buffer.part(0, 8), mesh); }),
              "redistribute of 'w1' (f32 [8, 6]): the buffer of `to` has 8 bytes, expected 96, which rank " +
                  std::to_string(mesh.rank()) + " holds of tp: Shard(1)");
    redistribute(plan, from.tensor.buffer, to.tensor.buffer, mesh);
    EXPECT_THAT(plan.explain(), AllOf(HasSubstr("'w1' (f32 [8, 6]): tp: Shard(0) -> tp: Shard(1)"), HasSubstr("sum")));
  });
}

TEST(RedistributeByAPlan, EndsWithMismatch_WhereOneRankHasThePlanOfAnotherTensor) {
  on_threads(2, only("inproc"), [&](World& world) {
    Mesh mesh(world.communicator(), Factorisation({{"tp", 2}}));
    TensorSpec other = kFrom;
    other.shape = {16, 6};
    const auto small = plan_redistribution(kFrom, {}, mesh);
    const auto large = plan_redistribution(other, {}, mesh);
    const auto& mine = mesh.rank() == 0 ? small : large;
    TensorSpec end = mine.from;
    end.placements = {};
    Owned from(mine.from, mesh), to(end, mesh);
    try {
      redistribute(mine, from.tensor.buffer, to.tensor.buffer, mesh);
      ADD_FAILURE() << "went on";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::Mismatch) << e.what();
      EXPECT_THAT(std::string(e.what()), HasSubstr("refusal_test.cpp:"));
    }
  });
}

}  // namespace
}  // namespace sinew::parallel::test
