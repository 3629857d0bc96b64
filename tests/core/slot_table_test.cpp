#include <vector>

#include <gtest/gtest.h>

#include <sinew/core/base/slot_table.hpp>

namespace sinew {
namespace {

TEST(SlotTable, FindsWhatIsInAndNothingElse) {
  SlotTable<int> table;
  int a = 1, b = 2;
  const auto na = table.insert(a);
  const auto nb = table.insert(b);
  EXPECT_NE(na, nb);
  EXPECT_EQ(table.find(na), &a);
  EXPECT_EQ(table.find(nb), &b);
  EXPECT_EQ(table.find(12345), nullptr);
  EXPECT_EQ(table.find(~0u), nullptr);
  EXPECT_EQ(table.erase(na), &a);
  EXPECT_EQ(table.erase(na), nullptr);
  EXPECT_EQ(table.count(), 1u);
}

TEST(SlotTable, NumberOfAReusedSlotIsNew) {
  SlotTable<int> table;
  int a = 1;
  const auto first = table.insert(a);
  table.erase(first);
  const auto second = table.insert(a);
  EXPECT_NE(first, second);
  EXPECT_EQ(table.find(first), nullptr);
  EXPECT_EQ(table.find(second), &a);
}

TEST(SlotTable, VisitMayEraseWhatItVisits) {
  SlotTable<std::uint32_t> table;
  std::vector<std::uint32_t> numbers(10);
  for (auto& n : numbers) n = table.insert(n);
  int seen = 0;
  table.for_each([&](std::uint32_t& n, std::uint32_t number) {
    ++seen;
    EXPECT_EQ(n, number);
    table.erase(number);
  });
  EXPECT_EQ(seen, 10);
  EXPECT_EQ(table.count(), 0u);
}

}  // namespace
}  // namespace sinew
