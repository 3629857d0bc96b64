#include <stdexcept>

#include <gtest/gtest.h>

#include <sinew/core/base/table.hpp>

namespace sinew {
namespace {

TEST(Table, MakesColumnsAsWideAsTheirWidestCell) {
  Table table({{.name = "call"}, {.name = "time", .below = "(us)", .align = Align::Right}, {.name = "way"}}, "  ",
              "# ");
  table.add({"all_reduce", "1.5", "ring"});
  table.add({"send", "12345.5", ""});
  EXPECT_EQ(table.text(),
            "# call           time  way\n"
            "#                (us)\n"
            "  all_reduce      1.5  ring\n"
            "  send        12345.5\n");
}

TEST(Table, HasNoHeading_WhereNoColumnHasAName) {
  Table table({Column{}, {.align = Align::Right, .width = 4}});
  table.add({"a", "1"});
  EXPECT_EQ(table.text(), "a     1\n");
  EXPECT_EQ(table.heading(), "");
  EXPECT_EQ(Table({Column{}}).text(), "");
}

TEST(Table, LetsTheLastCellOfAShorterRowRunOverTheOthers) {
  Table table({Column{}, {.align = Align::Right}, {}});
  table.add({"ring", "12.5 us", "on shm"});
  table.add({"no", "needs a power of two of ranks, not 6"});
  EXPECT_EQ(table.text(),
            "ring  12.5 us  on shm\n"
            "no    needs a power of two of ranks, not 6\n");
}

TEST(Table, PrintsRowByRow_InTheWidthsThatItWasGiven) {
  const Table table(
      {{.name = "size", .align = Align::Right, .width = 6}, {.name = "us", .align = Align::Right, .width = 5}}, " ",
      "#");
  EXPECT_EQ(table.heading(), "#  size     us\n");
  EXPECT_EQ(table.row({"8", "1.25"}), "      8   1.25\n");
  EXPECT_EQ(table.row({"12345678", "1.25"}), " 12345678   1.25\n") << "a wider cell moves what follows";
}

TEST(Table, CountsCharacters_NotBytes) {
  Table table({Column{}, {}});
  table.add({"\xc2\xb5s", "a"});
  table.add({"mss", "b"});
  EXPECT_EQ(table.text(), "\xc2\xb5s   a\nmss  b\n");
}

TEST(Table, RefusesMoreCellsThanColumns) {
  Table table({Column{}, {}});
  EXPECT_THROW(table.add({"1", "2", "3"}), std::invalid_argument);
  EXPECT_THROW((void)table.row({"1", "2", "3"}), std::invalid_argument);
}

}  // namespace
}  // namespace sinew
