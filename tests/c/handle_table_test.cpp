#include <atomic>
#include <cstdint>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/c/handles/handle_table.hpp>

namespace sinew::c {
namespace {

struct Entry {
  static constexpr Kind kKind = Kind::Plan;
  std::atomic<int> value{0};
};
using Table = HandleTable<Entry>;

void empty(Table& table, TablePlace<Entry>& place, std::uint64_t generation) {
  ASSERT_EQ(place.word.close(generation), UseWord::Entry::Entered);
  place.word.retire();
  table.give_back(place);
}

TEST(HandleTable, FindsAnObject_ByItsHandleAlone) {
  static Table table;  // never destroyed, as those of the library
  TablePlace<Entry>& place = table.take();
  const std::uint64_t id = place.id(place.word.open());
  EXPECT_NE(id, 0U);
  EXPECT_EQ(table.find(id), &place);
  EXPECT_TRUE(place.word.holds(HandleId::generation(id)));
  const std::uint64_t other_kind = HandleId::make(Kind::Work, HandleId::generation(id), HandleId::index(id));
  EXPECT_EQ(table.find(other_kind), nullptr);
  EXPECT_EQ(table.find(0), nullptr);
  EXPECT_EQ(table.find(~std::uint64_t{0}), nullptr);
  EXPECT_EQ(table.find(id + 100'000), nullptr);
}

TEST(HandleTable, RefusesTheOldHandle_WhenThePlaceHoldsTheNextObject) {
  static Table table;  // never destroyed, as those of the library
  TablePlace<Entry>& place = table.take();
  const std::uint64_t first = place.id(place.word.open());
  empty(table, place, HandleId::generation(first));
  TablePlace<Entry>& again = table.take();
  ASSERT_EQ(&again, &place);
  const std::uint64_t second = again.id(again.word.open());
  EXPECT_NE(first, second);
  EXPECT_FALSE(place.word.holds(HandleId::generation(first)));
  EXPECT_TRUE(place.word.holds(HandleId::generation(second)));
}

TEST(HandleTable, ShowsWhatIsInUse_WhenPlacesComeAndGo) {
  static Table table;  // never destroyed, as those of the library
  std::vector<std::pair<TablePlace<Entry>*, std::uint64_t>> open;
  for (int i = 0; i < 1000; ++i) {
    TablePlace<Entry>& place = table.take();
    place.entry.value = i;
    open.emplace_back(&place, place.word.open());
  }
  for (std::size_t i = 0; i < open.size(); i += 2) empty(table, *open[i].first, open[i].second);
  std::multiset<int> seen;
  table.for_each([&](TablePlace<Entry>& place, std::uint64_t) { seen.insert(place.entry.value); });
  ASSERT_EQ(seen.size(), 500U);
  for (const int value : seen) EXPECT_EQ(value % 2, 1);
}

TEST(HandleTable, GivesEachThreadPlacesOfItsOwn_WhenManyTakeThem) {
  static Table table;  // never destroyed, as those of the library
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 1; t <= 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2'000; ++i) {
        TablePlace<Entry>& place = table.take();
        place.entry.value = t;
        const std::uint64_t generation = place.word.open();
        if (place.entry.value != t || table.find(place.id(generation)) != &place) ++wrong;
        if (place.word.close(generation) != UseWord::Entry::Entered) ++wrong;
        place.word.retire();
        table.give_back(place);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace sinew::c
