#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/parallel/placement/tensor.hpp>

#include "placed_data.hpp"
#include "support/worlds.hpp"

namespace sinew::parallel::test {
namespace {

using sinew::test::complaint;
using testing::AllOf;
using testing::HasSubstr;

using Entries = std::vector<Placements::Entry>;

const std::vector<Axis> kAxes{{"tp", 2}, {"cp", 3}, {"dp", 2}};

/// The elements in a box, row-major.
std::vector<std::size_t> elements_in(const Box& box, const std::vector<std::int64_t>& shape) {
  std::vector<std::size_t> elements{0};
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::vector<std::size_t> longer;
    for (const std::size_t e : elements) {
      for (std::int64_t row = box.first[d]; row < box.last[d]; ++row)
        longer.push_back(e * static_cast<std::size_t>(shape[d]) + static_cast<std::size_t>(row));
    }
    elements = std::move(longer);
  }
  return elements;
}

TEST(LocalBox, IsWhatListsOfIndicesSay_ForEveryRank) {
  const std::vector<TensorSpec> specs{
      {"number", DType::F32, {}, {}},
      {"whole", DType::F32, {5, 4}, Entries{{"dp", Partial{}}}},
      {"rows", DType::F32, {5, 4}, Entries{{"cp", Shard{0, {}}}}},
      {"none", DType::F32, {0, 4}, Entries{{"cp", Shard{0, {}}}}},
      {"few", DType::F32, {2, 2}, Entries{{"cp", Shard{1, {}}}}},
      {"both", DType::F32, {5, 7}, Entries{{"tp", Shard{1, {}}}, {"cp", Shard{0, {}}}}},
      {"nested", DType::F32, {17}, Entries{{"tp", Shard{0, {}}}, {"cp", Shard{0, {}}}, {"dp", Shard{0, {}}}}},
      {"other way", DType::F32, {17}, Entries{{"dp", Shard{0, {}}}, {"cp", Shard{0, {}}}, {"tp", Shard{0, {}}}}},
      {"uneven", DType::F32, {8, 3}, Entries{{"cp", Shard{0, {0, 0, 7, 8}}}, {"tp", Shard{1, {0, 3, 3}}}}},
      {"uneven inside", DType::F32, {8}, Entries{{"dp", Shard{0, {}}}, {"cp", Shard{0, {0, 1, 1, 4}}}}},
  };
  for (const TensorSpec& spec : specs) {
    for (int rank = 0; rank < 12; ++rank) {
      const Box box = local_box(spec, Factorisation(kAxes), rank);
      EXPECT_EQ(elements_in(box, spec.shape), elements_of(spec, kAxes, rank)) << spec.to_string() << " " << rank;
      EXPECT_EQ(local_bytes(spec, Factorisation(kAxes), rank), 4 * elements_of(spec, kAxes, rank).size());
    }
  }
}

TEST(LocalBox, CutsWithoutOverflow_WhereExtentTimesRanksIsTooLarge) {
  const Factorisation mesh({{"dp", 3}});
  const std::int64_t extent = std::int64_t{1} << 62;
  const TensorSpec spec{"huge", DType::U8, {extent}, Entries{{"dp", Shard{}}}};
  EXPECT_EQ(local_box(spec, mesh, 1).first[0], extent / 3);
  EXPECT_EQ(local_box(spec, mesh, 2).last[0], extent);
}

/// What is said of a spec, on every rank alike.
std::string said_of(const TensorSpec& spec) {
  const Factorisation mesh(kAxes);
  const std::string first = complaint([&] { static_cast<void>(local_box(spec, mesh, 0)); });
  for (int rank = 1; rank < mesh.ranks(); ++rank)
    EXPECT_EQ(complaint([&] { static_cast<void>(local_box(spec, mesh, rank)); }), first);
  return first;
}

TEST(LocalBox, NamesTensorAxisAndRule_WhereOneIsBroken) {
  const auto w1 = [](Placements placements, DType dtype = DType::F32) {
    return said_of({"w1", dtype, {8, 6}, std::move(placements)});
  };
  EXPECT_EQ(said_of({"w1", DType::F32, {8, 6}, Entries{{"tp", Shard{1, {}}}}}), "no complaint");
  EXPECT_THAT(w1(Entries{{"ep", Shard{}}}),
              AllOf(HasSubstr("tensor 'w1' (f32 [8, 6])"), HasSubstr("ep"), HasSubstr("tp 2, cp 3, dp 2")));
  EXPECT_THAT(w1(Entries{{"dp-cp", Shard{}}, {"cp", Shard{1, {}}}}),
              AllOf(HasSubstr("'w1'"), HasSubstr("names axis cp twice")));
  EXPECT_EQ(w1(Entries{{"tp", Shard{2, {}}}}),
            "tensor 'w1' (f32 [8, 6]): Shard(2) along tp: expected one of its 2 dimensions, counted from 0");
  EXPECT_THAT(w1(Entries{{"tp", Shard{-1, {}}}}), HasSubstr("Shard(-1) along tp: expected one of its 2 dimensions"));
  EXPECT_THAT(w1(Entries{{"tp", Shard{0, {0, 8}}}}),
              HasSubstr("Shard(0: 0, 8) along tp: expected 3 offsets, one more than the axis has ranks, found 2"));
  EXPECT_THAT(w1(Entries{{"tp", Shard{0, {1, 4, 8}}}}), HasSubstr("expected offsets that ascend from 0"));
  EXPECT_THAT(w1(Entries{{"cp", Shard{0, {0, 5, 4, 8}}}}), HasSubstr("expected offsets that ascend from 0"));
  EXPECT_THAT(w1(Entries{{"tp", Shard{0, {0, 4, 7}}}}), HasSubstr("expected 8 as the last offset"));
  EXPECT_THAT(w1(Entries{{"dp", Shard{0, {}}}, {"tp", Shard{0, {0, 1, 3}}}}), HasSubstr("expected 4 as the last"));
  EXPECT_THAT(w1(Entries{{"cp", Shard{0, {}}}, {"tp", Shard{0, {0, 1, 3}}}}),
              HasSubstr("along tp: expected no offsets: the parts of dimension 0 that it cuts have from 2 to 3 rows"));
  EXPECT_THAT(w1(Entries{{"dp", Partial{ReduceOp::BitXor}}}), HasSubstr("along dp: not defined for f32"));
  EXPECT_EQ(w1(Entries{{"dp", Partial{ReduceOp::BitXor}}}, DType::I32), "no complaint");
  EXPECT_THAT(w1(Entries{{"dp", Partial{ReduceOp::PreMulSum}}}), HasSubstr("takes nothing but the data"));
  EXPECT_THAT(said_of({"w1", DType::F32, {-1}, {}}), HasSubstr("an extent of -1: expected 0 or more"));
  EXPECT_THAT(said_of({"w1", DType::F32, {INT64_MAX, 2}, {}}), HasSubstr("more bytes than an address space"));
}

}  // namespace
}  // namespace sinew::parallel::test
