#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/collectives/virtual_cluster/virtual_world.hpp>
#include <sinew/collectives/world/virtual_ranks.hpp>

#include "../moved.hpp"

namespace sinew::parallel::test {
namespace {

using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;

using Entries = std::vector<Placements::Entry>;

constexpr std::array kTypes{DType::F32, DType::F64, DType::I32, DType::BF16};
constexpr std::array kOperators{ReduceOp::Sum, ReduceOp::Average, ReduceOp::Max, ReduceOp::Min, ReduceOp::Product};

/// Every placement along one axis of a tensor with so many dimensions.
std::vector<Placement> placements_of(std::size_t dims, ReduceOp op) {
  std::vector<Placement> all{Replicate{}, Partial{op}};
  for (std::size_t d = 0; d < dims; ++d) all.push_back(Shard{static_cast<int>(d), {}});
  return all;
}

/// Every placement along two axes, with both orders of cutting where they cut the same dimension.
std::vector<Placements> placements_of(const std::vector<Axis>& axes, std::size_t dims, ReduceOp op) {
  std::vector<Placements> all;
  for (const Placement& first : placements_of(dims, op)) {
    for (const Placement& second : placements_of(dims, op)) {
      all.push_back(Entries{{axes[0].name, first}, {axes[1].name, second}});
      if (std::holds_alternative<Shard>(first) && first == second)
        all.push_back(Entries{{axes[1].name, second}, {axes[0].name, first}});
    }
  }
  return all;
}

class Redistribution : public testing::TestWithParam<std::vector<Axis>> {};

/// Shapes that do not divide, that have fewer rows than ranks, and none.
struct Case {
  std::vector<std::int64_t> shape;
  ReduceOp op;
};
const std::vector<Case> kCases{{{7}, ReduceOp::Sum},          {{1}, ReduceOp::Average},    {{0}, ReduceOp::Sum},
                               {{8}, ReduceOp::Max},          {{5, 3}, ReduceOp::Sum},     {{12, 4}, ReduceOp::Product},
                               {{1, 6}, ReduceOp::Min},       {{3, 0}, ReduceOp::Average}, {{5, 3, 7}, ReduceOp::Sum},
                               {{2, 1, 4}, ReduceOp::Average}};

TEST_P(Redistribution, PutsEveryElementInItsPlace_BetweenAllPlacements) {
  const Factorisation shape(GetParam());
  Boards boards(shape.ranks());
  on_threads(shape.ranks(), only("inproc"), [&](World& world) {
    Mesh mesh(world.communicator(), shape);
    unsigned number = 0;
    for (const auto& [extents, op] : kCases) {
      const std::vector<Placements> all = placements_of(GetParam(), extents.size(), op);
      for (const Placements& from : all) {
        for (const Placements& to : all) {
          const Journey journey{{"t", kTypes[number % kTypes.size()], extents, from}, to};
          require_moved(world, mesh, journey, number++, boards);
        }
      }
    }
    require(number > 1500, "all pairs");
  });
}

INSTANTIATE_TEST_SUITE_P(Meshes, Redistribution,
                         testing::Values(std::vector<Axis>{{"tp", 2}, {"dp", 2}},
                                         std::vector<Axis>{{"tp", 2}, {"dp", 3}},
                                         std::vector<Axis>{{"tp", 4}, {"dp", 2}}),
                         [](const auto& mesh) {
                           return std::to_string(mesh.param[0].size) + "x" + std::to_string(mesh.param[1].size);
                         });

/// Any placement along any of the axes, in any order, of any operators, with any offsets.
Placements any_placements(const TensorSpec& spec, const std::vector<Axis>& axes, std::mt19937& dice) {
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(dice() % n); };
  Entries entries;
  for (const Axis& axis : axes) {
    const std::size_t kind = below(spec.shape.size() + 2);
    if (kind == 0) continue;
    if (kind == 1) {
      entries.push_back({axis.name, Partial{kOperators[below(kOperators.size())]}});
    } else {
      entries.push_back({axis.name, Shard{static_cast<int>(kind) - 2, {}}});
    }
  }
  std::shuffle(entries.begin(), entries.end(), dice);
  std::vector<bool> cut(spec.shape.size());
  for (auto& [axis, placement] : entries) {
    auto* shard = std::get_if<Shard>(&placement);
    if (shard == nullptr) continue;
    const auto d = static_cast<std::size_t>(shard->dim);
    if (!cut[d] && below(2) == 0) {  // what is cut already has parts of several lengths
      const auto rows = static_cast<std::size_t>(spec.shape[d]);
      for (int i = 1; i < size_along(axes, axis); ++i)
        shard->offsets.push_back(static_cast<std::int64_t>(below(rows + 1)));
      std::ranges::sort(shard->offsets);
      shard->offsets.insert(shard->offsets.begin(), 0);
      shard->offsets.push_back(spec.shape[d]);
    }
    cut[d] = true;
  }
  return entries;
}

TEST(RedistributionOfThreeAxes, PutsEveryElementInItsPlace_WithAnyOffsetsAndOperators) {
  const std::vector<Axis> axes{{"tp", 2}, {"cp", 2}, {"dp", 2}};
  const std::vector<std::vector<std::int64_t>> shapes{{9}, {4, 5}, {8, 8}, {3, 2, 5}};
  Boards boards(8);
  on_threads(8, only("inproc"), [&](World& world) {
    Mesh mesh(world.communicator(), Factorisation(axes));
    std::mt19937 dice(7);
    for (unsigned number = 0; number < 400; ++number) {
      TensorSpec spec{"t", kTypes[dice() % kTypes.size()], shapes[dice() % shapes.size()], {}};
      spec.placements = any_placements(spec, axes, dice);
      const Placements to = any_placements(spec, axes, dice);
      require_moved(world, mesh, {spec, to}, number, boards);
    }
  });
}

TEST(RedistributionOfFlattenedAxes, PutsEveryElementInItsPlace_AlongBothAtOnceAndEach) {
  const std::vector<Axis> axes{{"tp", 2}, {"cp", 2}, {"dp", 2}};
  const std::vector<std::string> groups{"tp", "cp", "dp", "cp-dp"};
  std::vector<Bytes> held(8);
  on_threads(8, only("inproc"), [&](World& world) {
    Mesh mesh(world.communicator(), Factorisation(axes), groups);
    const TensorSpec both{"t", DType::F32, {9, 4}, Entries{{"dp-cp", Shard{}}, {"tp", Shard{1, {}}}}};
    TensorSpec each = both;  // the later axis is the slower one of the two together
    each.placements = Entries{{"dp", Shard{1, {}}}, {"cp", Partial{}}};
    const std::vector<Axis> flattened{{"tp", 2}, {"dp-cp", 4}};
    Bytes in = data_of(both, flattened, mesh.rank(), 1);
    Bytes& out = held[static_cast<std::size_t>(mesh.rank())];
    out.resize(local_bytes(each, mesh.shape(), mesh.rank()));
    redistribute(Tensor{both, {in.data(), in.size()}}, Tensor{each, {out.data(), out.size()}}, mesh);
    world.communicator().barrier().get();
    require(wrong_in(each, axes, mesh.rank(), held).empty(), wrong_in(each, axes, mesh.rank(), held));
  });
}

TEST(PlacedData, SeesOneWrongElement_OfEveryKindOfPlacement) {
  const std::vector<Axis> axes{{"tp", 2}, {"dp", 2}};
  for (const Placements& placements : placements_of(axes, 2, ReduceOp::Sum)) {
    const TensorSpec spec{"t", DType::I32, {4, 6}, placements};
    std::vector<Bytes> held;
    for (int rank = 0; rank < 4; ++rank) held.push_back(data_of(spec, axes, rank, 3));
    for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(wrong_in(spec, axes, rank, held), "");
    held[2][8] ^= std::byte{1};
    EXPECT_NE(wrong_in(spec, axes, 2, held), "") << placements.to_string();
  }
}

TEST(PlacedData, SeesThatAReductionWasForgotten) {
  const std::vector<Axis> axes{{"tp", 2}, {"dp", 2}};
  const TensorSpec sum{"t", DType::F64, {6, 4}, Entries{{"dp", Partial{}}}};
  std::vector<Bytes> held(4);
  std::array<std::string, 4> wrong;
  on_threads(4, only("inproc"), [&](World& world) {
    Mesh mesh(world.communicator(), Factorisation(axes));
    const auto me = static_cast<std::size_t>(mesh.rank());
    TensorSpec taken_for_whole = sum, end = sum;
    taken_for_whole.placements = {};
    end.placements = Entries{{"tp", Shard{1, {}}}};
    Bytes in = data_of(sum, axes, mesh.rank(), 1);
    held[me].resize(local_bytes(end, mesh.shape(), mesh.rank()));
    redistribute(Tensor{taken_for_whole, {in.data(), in.size()}}, Tensor{end, {held[me].data(), held[me].size()}},
                 mesh);
    world.communicator().barrier().get();
    wrong[me] = wrong_in(end, axes, mesh.rank(), held);
  });
  for (const std::string& found : wrong) EXPECT_THAT(found, testing::HasSubstr("expected"));
}

std::uint64_t bytes_sent(const World& world) {
  std::uint64_t sum = 0;
  for (const std::uint64_t bytes : world.sent_bytes()) sum += bytes;
  return sum;
}

TEST(RedistributionOnAVirtualCluster, MovesNothing_WhereEachRankHasWhatItNeeds) {
  const std::vector<Placements> ends{Entries{{"dp", Shard{0, {}}}}, Entries{{"tp", Shard{1, {}}}},
                                     Entries{{"tp", Partial{}}},
                                     Entries{{"dp", Shard{0, {}}}, {"tp", Partial{ReduceOp::Max}}},
                                     Entries{{"tp", Shard{0, {}}}, {"dp", Shard{0, {}}}}};
  WorldOptions options;
  options.config.timeout = std::chrono::seconds(60);
  run_virtual_ranks(make_virtual_world(virtual_cluster_from("xeon-2s:2+2")), options, [&](World& world) {
    Mesh mesh(world.communicator(), Factorisation({{"tp", 2}, {"dp", 2}}));
    const TensorSpec whole{"t", DType::F32, {64, 8}, {}};
    for (const Placements& to : ends) {
      const auto plan = plan_redistribution(whole, to, mesh);
      TensorSpec end = whole;
      end.placements = to;
      Bytes in(local_bytes(whole, mesh.shape(), mesh.rank())), out(local_bytes(end, mesh.shape(), mesh.rank()));
      const std::uint64_t before = bytes_sent(world);
      redistribute(plan, {in.data(), in.size()}, {out.data(), out.size()}, mesh);
      require(bytes_sent(world) == before, plan.explain());
      const auto back = plan_redistribution(end, {}, mesh);  // the counter counts
      redistribute(back, {out.data(), out.size()}, {in.data(), in.size()}, mesh);
      require(bytes_sent(world) > before, back.explain());
    }
  });
}

TEST(RedistributionOnAVirtualCluster, IsOneCollective_WhereOneLeadsThere) {
  WorldOptions options;
  options.config.timeout = std::chrono::seconds(60);
  run_virtual_ranks(make_virtual_world(virtual_cluster_from("xeon-2s:1+1+1+1")), options, [&](World& world) {
    Mesh mesh(world.communicator(), Factorisation({{"dp", 4}}));
    const auto along = [](Placement p) { return Placements(Entries{{"dp", std::move(p)}}); };
    const Placement whole = Replicate{}, rows = Shard{0, {}}, columns = Shard{1, {}}, sum = Partial{};
    const auto taken = [&](const Placement& from, const Placement& to) {
      const TensorSpec spec{"t", DType::F32, {2048, 2048}, along(from)};
      const auto plan = plan_redistribution(spec, along(to), mesh);
      require(plan.steps.size() == 1, plan.explain());
      return plan.steps[0];
    };
    EXPECT_EQ(taken(rows, columns).collective, Collective::AllToAll);
    EXPECT_EQ(taken(sum, rows).collective, Collective::ReduceScatter);
    EXPECT_EQ(taken(sum, whole).collective, Collective::AllReduce);
    EXPECT_EQ(taken(rows, whole).collective, Collective::AllGather);
    // What the communicator says, and nothing to put in order.
    const CollectiveDesc gather{.collective = Collective::AllGather, .dtype = DType::F32, .count = 512 * 2048};
    EXPECT_EQ(taken(rows, whole).predicted, mesh.along("dp").plan(gather).chosen().predicted);
  });
}

TEST(RedistributionOnAVirtualCluster, IsPlannedAlikeOnAllRanks_WhereGroupsOfAnAxisPredictDifferently) {
  std::vector<std::string> plans(6);
  std::vector<Seconds> alone(6);
  WorldOptions options;
  options.config.timeout = std::chrono::seconds(60);
  run_virtual_ranks(make_virtual_world(virtual_cluster_from("xeon-2s:3+3")), options, [&](World& world) {
    // Of the groups along tp the middle one has a rank on each host.
    Mesh mesh(world.communicator(), Factorisation({{"tp", 2}, {"dp", 3}}));
    const TensorSpec spec{"t", DType::F32, {512, 512}, Entries{{"tp", Shard{0, {}}}, {"dp", Partial{}}}};
    const auto me = static_cast<std::size_t>(mesh.rank());
    plans[me] = plan_redistribution(spec, Entries{{"dp", Shard{1, {}}}}, mesh).explain();
    alone[me] = mesh.along("tp")
                    .plan({.collective = Collective::AllGather, .dtype = DType::F32, .count = 512 * 256})
                    .chosen()
                    .predicted;
  });
  EXPECT_NE(alone[0], alone[2]);
  for (const std::string& plan : plans) EXPECT_EQ(plan, plans[0]);
}

}  // namespace
}  // namespace sinew::parallel::test
