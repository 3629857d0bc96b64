#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/parallel/tensor/dropout.hpp>
#include <support/worlds.hpp>

namespace sinew::parallel {
namespace {

using sinew::test::complaint;

std::vector<double> applied(const Dropout& dropout, const Box& part, std::int64_t columns, std::uint64_t step) {
  std::vector<double> x(static_cast<std::size_t>(part.elements()), 1.0);
  dropout.apply(x.data(), part, columns, step);
  return x;
}

TEST(Dropout, HasOneMask_HoweverTheTensorIsCut) {
  constexpr std::int64_t kRows = 13, kColumns = 17;
  const Dropout dropout(5, "blocks.0.attention", 0.3);
  const std::vector<double> whole = applied(dropout, {{0, 0}, {kRows, kColumns}}, kColumns, 7);
  for (const Box& part : {Box{{0, 0}, {13, 5}}, Box{{3, 0}, {4, 17}}, Box{{5, 6}, {11, 16}}, Box{{2, 3}, {2, 9}}}) {
    std::size_t at = 0;
    const std::vector<double> some = applied(dropout, part, kColumns, 7);
    for (std::int64_t r = part.first[0]; r < part.last[0]; ++r) {
      for (std::int64_t c = part.first[1]; c < part.last[1]; ++c)
        EXPECT_EQ(some[at++], whole[static_cast<std::size_t>(r * kColumns + c)]) << r << ", " << c;
    }
  }
}

TEST(Dropout, DropsItsShare_AndKeepsTheMean) {
  for (const double p : {0.0, 0.1, 0.5, 0.9}) {
    const std::vector<double> x = applied(Dropout(1, "a", p), {{0, 0}, {400, 250}}, 250, 0);
    double sum = 0, dropped = 0;
    for (const double v : x) {
      sum += v;
      dropped += v == 0 ? 1 : 0;
      EXPECT_TRUE(v == 0 || std::abs(v - 1 / (1 - p)) < 1e-12);
    }
    EXPECT_NEAR(dropped / 1e5, p, 0.01);
    EXPECT_NEAR(sum / 1e5, 1, 0.05);
  }
}

TEST(Dropout, HasOtherMasks_ForOtherLayersStepsAndSeeds) {
  const Box part{{0, 0}, {8, 8}};
  const std::vector<double> one = applied(Dropout(1, "a", 0.5), part, 8, 0);
  EXPECT_EQ(one, applied(Dropout(1, "a", 0.5), part, 8, 0));
  EXPECT_NE(one, applied(Dropout(1, "a", 0.5), part, 8, 1));
  EXPECT_NE(one, applied(Dropout(1, "b", 0.5), part, 8, 0));
  EXPECT_NE(one, applied(Dropout(2, "a", 0.5), part, 8, 0));
}

TEST(Dropout, SaysWhatIsNoProbability) {
  for (const double p : {-0.1, 1.0, 1.5, std::nan("")}) {
    const std::string said = complaint([&] { Dropout(1, "mlp", p); });
    EXPECT_NE(said.find("dropout of 'mlp'"), std::string::npos) << said;
  }
}

}  // namespace
}  // namespace sinew::parallel
