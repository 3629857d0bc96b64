#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/parallel/placement/checked_collectives.hpp>

#include "moved.hpp"

namespace sinew::parallel::test {
namespace {

using sinew::test::complaint;
using sinew::test::on_threads;
using sinew::test::only;
using testing::AllOf;
using testing::HasSubstr;

using Entries = std::vector<Placements::Entry>;

const std::vector<Axis> kAxes{{"tp", 2}, {"dp", 3}};

/// What all ranks hold, and a tensor whose buffer is the rank's part of that.
struct Shared {
  std::vector<Bytes> held = std::vector<Bytes>(6);

  Tensor filled(const TensorSpec& spec, const Mesh& mesh) {
    Bytes& mine = held[static_cast<std::size_t>(mesh.rank())];
    mine = data_of(spec, kAxes, mesh.rank(), 5);
    return {spec, {mine.data(), mine.size()}};
  }
  Tensor empty(const TensorSpec& spec, const Mesh& mesh) {
    Bytes& mine = held[static_cast<std::size_t>(mesh.rank())];
    mine.assign(local_bytes(spec, mesh.shape(), mesh.rank()), std::byte{0x5a});
    return {spec, {mine.data(), mine.size()}};
  }
  void require_right(World& world, const TensorSpec& spec) const {
    world.communicator().barrier().get();
    const std::string wrong = wrong_in(spec, kAxes, world.rank(), held);
    sinew::test::require(wrong.empty(), wrong);
  }
};

TEST(CheckedCollectives, MoveTheDataAndSetThePlacement) {
  Shared sums, rows, all;
  on_threads(6, only("inproc"), [&](World& world) {
    Mesh mesh(world.communicator(), Factorisation(kAxes));
    const TensorSpec gradient{"g", DType::F32, {7, 4}, Entries{{"tp", Shard{1, {}}}, {"dp", Partial{}}}};
    Tensor sum = sums.filled(gradient, mesh);
    all_reduce(mesh, sum, "dp").get();
    EXPECT_EQ(sum.placements.to_string(), "tp: Shard(1)");
    sums.require_right(world, sum);

    world.communicator().barrier().get();
    sum = sums.filled(gradient, mesh);
    TensorSpec shard = gradient;
    shard.placements = Entries{{"tp", Shard{1, {}}}, {"dp", Shard{0, {0, 1, 1, 7}}}};
    Tensor part = rows.empty(shard, mesh);
    reduce_scatter(mesh, sum, part, "dp").get();
    EXPECT_EQ(part.placements, shard.placements);
    rows.require_right(world, part);

    TensorSpec whole = gradient;
    whole.placements = Entries{{"tp", Shard{1, {}}}};
    Tensor gathered = all.empty(whole, mesh);
    gathered.placements = {};  // what it is before the call does not count
    all_gather(mesh, part, gathered, "dp").get();
    EXPECT_EQ(gathered.placements, whole.placements);
    all.require_right(world, gathered);
  });
}

TEST(CheckedCollectives, CutEvenly_WhereTheResultSaysNothingElse) {
  Shared sums, rows;
  on_threads(6, only("inproc"), [&](World& world) {
    Mesh mesh(world.communicator(), Factorisation(kAxes));
    for (const std::int64_t extent : {12, 7, 2, 0}) {
      const TensorSpec gradient{"g", DType::F64, {extent}, Entries{{"tp", Shard{0, {}}}, {"dp", Partial{}}}};
      TensorSpec shard = gradient;
      shard.placements = Entries{{"tp", Shard{0, {}}}, {"dp", Shard{0, {}}}};
      Tensor sum = sums.filled(gradient, mesh);
      Tensor part = rows.empty(shard, mesh);
      part.placements = {};
      reduce_scatter(mesh, sum, part, "dp").get();
      EXPECT_EQ(part.placements, shard.placements);
      rows.require_right(world, part);
      world.communicator().barrier().get();
    }
  });
}

/// Every rank is told `expected`, and the tensors' placements stay.
void expect_refused(const Placements& from, const Placements& to, const std::string& call,
                    const testing::Matcher<std::string>& expected) {
  on_threads(6, only("inproc"), [&](World& world) {
    Mesh mesh(world.communicator(), Factorisation(kAxes));
    Shared a, b;
    Tensor in = a.empty({"w1", DType::F32, {8, 6}, from}, mesh);
    Tensor out = b.empty({"w1", DType::F32, {8, 6}, to}, mesh);
    EXPECT_THAT(complaint([&] {
                  if (call == "all_reduce") all_reduce(mesh, in, "dp").get();
                  if (call == "all_gather") all_gather(mesh, in, out, "dp").get();
                  if (call == "reduce_scatter") reduce_scatter(mesh, in, out, "dp").get();
                }),
                expected);
    EXPECT_EQ(in.placements, from);
    EXPECT_EQ(out.placements, to);
    world.communicator().barrier().get();  // and nobody waits
  });
}

TEST(CheckedCollectives, NameCallTensorAxisPlacementsAndTheMissingStep) {
  const Placements rows = Entries{{"dp", Shard{0, {}}}};
  const Placements columns = Entries{{"dp", Shard{1, {}}}};
  const Placements sum = Entries{{"dp", Partial{}}};
  expect_refused(sum, {}, "all_gather",
                 "all_gather of 'w1' (f32 [8, 6]) along dp: expected Shard(0), found Partial(sum): all_reduce it "
                 "instead, or reduce_scatter it first");
  expect_refused({}, {}, "all_gather",
                 "all_gather of 'w1' (f32 [8, 6]) along dp: expected Shard(0), found Replicate: it is whole; leave the "
                 "call out");
  expect_refused(columns, {}, "all_gather",
                 "all_gather of 'w1' (f32 [8, 6]) along dp: expected Shard(0), found Shard(1): redistribute it, which "
                 "puts the parts in order");
  expect_refused({}, {}, "all_reduce",
                 "all_reduce of 'w1' (f32 [8, 6]) along dp: expected Partial, found Replicate: it is combined already; "
                 "leave the call out");
  expect_refused(rows, {}, "all_reduce",
                 "all_reduce of 'w1' (f32 [8, 6]) along dp: expected Partial, found Shard(0): it is combined already; "
                 "all_gather it if all of it is needed");
  expect_refused(rows, rows, "reduce_scatter",
                 "reduce_scatter of 'w1' (f32 [8, 6]) along dp: expected Partial, found Shard(0): it is combined "
                 "already; all_gather it if all of it is needed");
}

TEST(CheckedCollectives, RefuseAnAxisThatIsNotTheInnermost) {
  expect_refused(Entries{{"dp", Shard{0, {}}}, {"tp", Shard{0, {}}}}, Entries{{"tp", Shard{0, {}}}}, "all_gather",
                 "all_gather of 'w1' (f32 [8, 6]) along dp: expected the innermost, found Shard(0) along tp inside it, "
                 "in dp: Shard(0), tp: Shard(0): change that one first");
  expect_refused(Entries{{"dp", Partial{}}, {"tp", Partial{ReduceOp::Max}}}, {}, "all_reduce",
                 HasSubstr("found Partial(max) along tp inside it"));
}

TEST(CheckedCollectives, RefuseOtherTensorsBuffersAndAxes) {
  on_threads(6, only("inproc"), [&](World& world) {
    Mesh mesh(world.communicator(), Factorisation(kAxes));
    Shared a, b;
    Tensor part = a.empty({"w1", DType::F32, {9, 4}, Entries{{"dp", Shard{}}}}, mesh);
    Tensor whole = b.empty({"w1", DType::F32, {9, 4}, {}}, mesh);
    const auto gather = [&](Tensor from, Tensor to, std::string_view axis) {
      return complaint([&] { all_gather(mesh, from, to, axis).get(); });
    };
    Tensor other = whole;
    other.shape = {4, 9};
    EXPECT_THAT(
        gather(part, other, "dp"),
        HasSubstr("all_gather of 'w1' (f32 [9, 4]) along dp: `to` is 'w1' (f32 [4, 9]); expected one of the same"));
    other = whole;
    other.buffer.bytes = 140;
    EXPECT_THAT(gather(part, other, "dp"), HasSubstr("along dp: the buffer of `to` has 140 bytes, expected 144"));
    other = part;
    other.buffer.bytes = 44;
    EXPECT_THAT(gather(other, whole, "dp"), HasSubstr("the buffer of `from` has 44 bytes, expected 48"));
    EXPECT_THAT(gather(part, whole, "ep"),
                AllOf(HasSubstr("all_gather of 'w1' (f32 [9, 4]) along ep: "), HasSubstr("ep")));
    all_gather(mesh, part, whole, "dp").get();
  });
}

TEST(Require, NamesTheStepBetweenEveryTwoPlacements) {
  const auto said = [](const Placement& found, const Placement& needed) {
    const TensorSpec spec{"x", DType::F32, {4, 4}, Entries{{"tp", found}}};
    return complaint([&] { require(spec, "tp", needed, "column_parallel_linear"); });
  };
  const Placement whole = Replicate{}, rows = Shard{0, {}}, columns = Shard{1, {}}, sum = Partial{};
  EXPECT_EQ(said(whole, whole), "no complaint");
  EXPECT_EQ(said(sum, whole),
            "column_parallel_linear of 'x' (f32 [4, 4]) along tp: expected Replicate, found Partial(sum): all_reduce "
            "it first");
  EXPECT_THAT(said(sum, rows), HasSubstr("expected Shard(0), found Partial(sum): reduce_scatter it first"));
  EXPECT_THAT(said(rows, whole), HasSubstr("expected Replicate, found Shard(0): all_gather it first"));
  EXPECT_THAT(said(rows, columns), HasSubstr("redistribute it first, an all_to_all"));
  EXPECT_THAT(said(whole, rows), HasSubstr("redistribute it first, by which each rank keeps its part"));
  EXPECT_THAT(said(whole, sum), HasSubstr("it is combined already"));
  EXPECT_THAT(said(Partial{ReduceOp::Max}, sum), HasSubstr("all_reduce it first, then"));
}

}  // namespace
}  // namespace sinew::parallel::test
