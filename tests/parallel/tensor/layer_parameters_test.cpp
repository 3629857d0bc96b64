// The parameters that layers give: together the ranks have each element as often as its spread says.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/tensor/layer_parameters.hpp>
#include <support/worlds.hpp>

namespace sinew::parallel {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const DataParameter kLike{.dtype = DType::BF16, .unit = "block", .uses = 2, .gradient = DType::F32, .spread = "pp"};

TEST(LayerParameters, OfAColumnLayerAreCut) {
  const LinearShape shape{.name = "up", .rows = 4, .inputs = 3, .outputs = 7, .cut = {0, {0, 2, 2, 7}}};
  const LinearParameters of = column_parameters(shape, "tp", 2, 3, kLike);
  EXPECT_EQ(of.weight.path, "up.weight");
  EXPECT_THAT(of.weight.shape, ElementsAre(7, 3));
  EXPECT_EQ(of.weight.box, (Box{{2, 0}, {7, 3}}));
  EXPECT_EQ(of.weight.spread, "pp-tp");
  EXPECT_EQ(of.weight.unit, "block");
  EXPECT_EQ(of.weight.uses, 2);
  EXPECT_EQ(of.weight.gradient_dtype(), DType::F32);
  EXPECT_EQ(of.bias.path, "up.bias");
  EXPECT_EQ(of.bias.box, (Box{{2}, {7}}));
  EXPECT_EQ(of.bias.spread, "pp-tp");
  EXPECT_EQ(column_parameters(shape, "tp", 1, 3).weight.box.elements(), 0);  // a rank without outputs
}

TEST(LayerParameters, OfARowLayerHaveAWholeBias) {
  const LinearShape shape{.name = "down", .rows = 4, .inputs = 7, .outputs = 3};
  const LinearParameters of = row_parameters(shape, "tp", 1, 2);
  EXPECT_EQ(of.weight.box, (Box{{0, 3}, {3, 7}}));
  EXPECT_EQ(of.weight.spread, "tp");
  EXPECT_EQ(of.bias.spread, "");
  EXPECT_EQ(complete_parameters({of.bias})[0].elements, 3);
}

TEST(LayerParameters, OfATableAreCutByTokens) {
  const DataParameter table = embedding_parameter({.name = "tokens", .vocabulary = 5, .width = 4}, "tp", 0, 2, kLike);
  EXPECT_EQ(table.path, "tokens.weight");
  EXPECT_EQ(table.box, (Box{{0, 0}, {2, 4}}));
  EXPECT_EQ(table.spread, "pp-tp");
}

TEST(LayerParameters, NameARankThatThereIsNot) {
  EXPECT_THAT(sinew::test::complaint([] { static_cast<void>(row_parameters({.name = "down"}, "tp", 2, 2)); }),
              HasSubstr("parameters of 'down': rank 2 along tp, expected 0 to 1"));
}

}  // namespace
}  // namespace sinew::parallel
