#include <gtest/gtest.h>

#include <sinew/parallel/mesh/factorisation.hpp>

namespace sinew::parallel {
namespace {

TEST(Factorisation, GivesTheGroupsThatMegatronDocuments_WhenTp2Pp4On16Ranks) {
  const Factorisation f({{"tp", 2}, {"dp", 2}, {"pp", 4}});
  using Groups = std::vector<std::vector<int>>;
  EXPECT_EQ(f.groups("tp"), (Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {10, 11}, {12, 13}, {14, 15}}));
  EXPECT_EQ(f.groups("dp"), (Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}, {8, 10}, {9, 11}, {12, 14}, {13, 15}}));
  EXPECT_EQ(f.groups("pp"), (Groups{{0, 4, 8, 12}, {1, 5, 9, 13}, {2, 6, 10, 14}, {3, 7, 11, 15}}));
}

}  // namespace
}  // namespace sinew::parallel
