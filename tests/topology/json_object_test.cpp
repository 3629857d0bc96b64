#include <limits>

#include <gtest/gtest.h>

#include <sinew/topology/format/json/json_object.hpp>

namespace sinew {
namespace {

TEST(JsonObject, KeepsTheOrderAndTheTypesOfItsFields) {
  EXPECT_EQ(
      json_object({{"rank", 1}, {"bytes", std::uint64_t{1} << 63}, {"well", true}, {"ratio", 0.5}, {"op", "sum"}}),
      R"({"rank":1,"bytes":9223372036854775808,"well":true,"ratio":0.5,"op":"sum"})");
  EXPECT_EQ(json_object({}), "{}");
}

TEST(JsonObject, RoundsNumbersToTheGivenDigits) {
  EXPECT_EQ(json_object({{"us", 12.34567, 2}, {"bytes_per_s", 1234.5, 0}}), R"({"us":12.35,"bytes_per_s":1235.0})");
}

TEST(JsonObject, HoldsWhateverNamesAndNumbersThereAre) {
  EXPECT_EQ(
      json_object({{"message", "rank 1: \"lost\"\n\xff"}, {"ratio", std::numeric_limits<double>::quiet_NaN(), 3}}),
      "{\"message\":\"rank 1: \\\"lost\\\"\\n\xef\xbf\xbd\",\"ratio\":null}");
}

}  // namespace
}  // namespace sinew
