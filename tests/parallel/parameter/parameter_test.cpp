// The record of a parameter: what follows from what, and what does not go together.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/core/float_formats.hpp>
#include <sinew/parallel/data_parallel/data_parallel.hpp>
#include <sinew/parallel/parameter/parameter.hpp>
#include <support/worlds.hpp>

#include "../support/small.hpp"

namespace sinew::parallel {
namespace {

using sinew::test::complaint;
using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;
using test::Small;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(CompleteParameters, FillInWhatFollows) {
  const auto found = complete_parameters({{.path = "flat", .elements = 5, .unit = "u"},
                                          {.path = "whole", .unit = "u", .shape = {2, 3}},
                                          {.path = "cut", .unit = "u", .shape = {6, 8}, .box = {{0, 4}, {6, 8}}}});
  EXPECT_THAT(found[0].shape, ElementsAre(5));
  EXPECT_EQ(found[1].elements, 6);
  EXPECT_EQ(found[1].box, (Box{{0, 0}, {2, 3}}));
  EXPECT_EQ(found[2].elements, 24);
  const auto again = complete_parameters(found);
  EXPECT_EQ(again[2].box, found[2].box);
  EXPECT_EQ(again[2].elements, 24);
}

TEST(CompleteParameters, TellWhereAnElementIsInTheWhole) {
  const auto cut = complete_parameters({{.path = "cut", .unit = "u", .shape = {6, 8}, .box = {{1, 4}, {3, 8}}}})[0];
  EXPECT_EQ(cut.number_in_whole(0), 12);
  EXPECT_EQ(cut.number_in_whole(3), 15);
  EXPECT_EQ(cut.number_in_whole(4), 20);
  EXPECT_EQ(cut.number_in_whole(7), 23);
  const DataParameter given{.path = "whole", .unit = "u", .shape = {6, 8}};
  EXPECT_EQ(given.number_in_whole(7), 7);
}

TEST(CompleteParameters, NameWhatDoesNotGoTogether) {
  const auto said = [](DataParameter p) {
    p.path = "w";
    p.unit = "u";
    return complaint([&] { static_cast<void>(complete_parameters({p})); });
  };
  EXPECT_EQ(said({.elements = 7, .shape = {2, 3}}),
            "data parallelism: parameter 'w' has 7 elements, expected 6: those of its part of the shape [2, 3]");
  EXPECT_THAT(said({.elements = 7, .box = {{0}, {7}}}), HasSubstr("has a box, but no shape"));
  EXPECT_THAT(said({.shape = {2, 3}, .box = {{0}, {2}}}), HasSubstr("has a box of 1 and 1 bounds, expected 2 each"));
  EXPECT_THAT(said({.shape = {2, 3}, .box = {{0, 1}, {2, 4}}}), HasSubstr("has the range 1 to 4 in dimension 1"));
  EXPECT_THAT(said({.shape = {2, 3}, .box = {{1, 1}, {0, 3}}}), HasSubstr("has the range 1 to 0 in dimension 0"));
  const std::vector<DataParameter> two(2, {.path = "v", .elements = 7, .unit = "u", .shape = {2, 3}});
  EXPECT_THAT(complaint([&] { static_cast<void>(complete_parameters(two)); }), HasSubstr("[2, 3]; parameter 'v' has"));
}

/// Elements of a part of [6, 8]: rows 1 and 2 of columns 4 to 7.
TEST(InitialParts, AreFilledByNumbersInTheWhole) {
  const auto cut = complete_parameters({{.path = "cut", .unit = "u", .shape = {6, 8}, .box = {{1, 4}, {3, 8}}}})[0];
  std::vector<float> values(3);
  InitialPart{cut, 0, 2, 5, {reinterpret_cast<std::byte*>(values.data()), 12}}.fill([](std::int64_t k) { return k; });
  EXPECT_THAT(values, ElementsAre(14, 15, 20));
}

TEST(InitialParts, AreRoundedToTheDtype) {
  const auto of = [](DType dtype) { return complete_parameters({{.path = "p", .dtype = dtype, .shape = {1}}})[0]; };
  const auto third = [](std::int64_t) { return 1.0 / 3; };
  double wide = 0;
  const DataParameter f64 = of(DType::F64), bf16 = of(DType::BF16), f16 = of(DType::F16), whole = of(DType::I32);
  InitialPart{f64, 0, 0, 1, {reinterpret_cast<std::byte*>(&wide), 8}}.fill(third);
  EXPECT_EQ(wide, 1.0 / 3);
  BFloat16 brain;
  InitialPart{bf16, 0, 0, 1, {reinterpret_cast<std::byte*>(&brain), 2}}.fill(third);
  EXPECT_EQ(to_float(brain), 0.333984375F);
  Half half;
  InitialPart{f16, 0, 0, 1, {reinterpret_cast<std::byte*>(&half), 2}}.fill(third);
  EXPECT_EQ(to_float(half), 0.333251953125F);
  EXPECT_THAT(complaint([&] {
                InitialPart{whole, 0, 0, 1}.fill(third);
              }),
              HasSubstr("InitialPart::fill of 'p': dtype i32, expected f64, f32, f16 or bf16"));
}

TEST(DataParameters, AreReadAsElementsOfTheirType) {
  on_threads(1, only("inproc"), [](World& world) {
    Small small(world, "ddp", {{.path = "a", .unit = "a", .shape = {2, 3}}});
    DataParallel& data = *small.data;
    require(data.parameter<float>(0).size() == 6, "six elements");
    data.gradient<float>(0)[5] = 1;
    const std::string said = complaint([&] { static_cast<void>(data.parameter<double>(0)); });
    require(said == "parameter 'a' is of f32, asked for as f64", said);
    const std::string other = complaint([&] { static_cast<void>(data.gradient<BFloat16>(0)); });
    require(other == "the gradient of parameter 'a' is of f32, asked for as bf16", other);
  });
}

}  // namespace
}  // namespace sinew::parallel
