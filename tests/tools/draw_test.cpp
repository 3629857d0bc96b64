#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/tools/draw/axis.hpp>
#include <sinew/tools/draw/parts.hpp>
#include <sinew/tools/draw/plot.hpp>
#include <sinew/tools/draw/printable.hpp>
#include <sinew/tools/draw/style.hpp>
#include <sinew/tools/draw/svg.hpp>

#include "drawing.hpp"

namespace sinew::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using namespace draw;

std::string drawing_of(std::string_view text) {
  Svg svg(100, 50, text);
  svg.box({1, 2, 3, 4}, "part", text);
  svg.text({5, 6}, text);
  return svg.text_of_file();
}

TEST(Drawing_Svg, IsWellFormed_WhateverTextsHold) {
  const std::string text = "<b>&\"'\x01\xff caf\xc3\xa9\n";
  const auto shapes = shapes_of(drawing_of(text));
  const std::string shown = "<b>&\"'\xEF\xBF\xBD\xEF\xBF\xBD caf\xc3\xa9 ";
  ASSERT_EQ(shapes.size(), 3U);
  EXPECT_TRUE(shapes[0].is("paper"));
  EXPECT_EQ(shapes[1].tooltip, shown);
  EXPECT_EQ(shapes[2].text, shown);
}

TEST(Drawing_Svg, NeedsNothingFromElsewhere) {
  std::string svg = drawing_of("x");
  const std::string name_space = "xmlns=\"http://www.w3.org/2000/svg\"";
  ASSERT_THAT(svg, HasSubstr(name_space));
  svg.erase(svg.find(name_space), name_space.size());
  for (const char* foreign : {"http", "<script", "@import", "url(", "@font-face", "<image", "href"})
    EXPECT_THAT(svg, Not(HasSubstr(foreign)));
  EXPECT_THAT(svg, HasSubstr("prefers-color-scheme:dark"));
}

TEST(Drawing_Svg, IsTheSameEveryTime) { EXPECT_EQ(drawing_of("x"), drawing_of("x")); }

TEST(Drawing_Svg, WritesNumbersShort) {
  Svg svg(10.5, 2, "");
  svg.box({1.0 / 3, 1e-9, 100, -1e-9}, "part");
  EXPECT_THAT(svg.text_of_file(), HasSubstr("x=\"0.33\" y=\"0\" width=\"100\" height=\"0\""));
  EXPECT_THAT(svg.text_of_file(), HasSubstr("viewBox=\"0 0 10.5 2\""));
}

TEST(Drawing_Printable, KeepsUtf8_AndReplacesEveryOtherByte) {
  const std::string bad = "\xEF\xBF\xBD";
  EXPECT_EQ(printable("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"), "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
  EXPECT_EQ(printable("\xc0\x80"), bad + bad) << "longer than needed";
  EXPECT_EQ(printable("\xed\xa0\x80"), bad + bad + bad) << "half a pair";
  EXPECT_EQ(printable("\xe2\x82"), bad + bad) << "cut off";
  EXPECT_EQ(printable("\xef\xbf\xbf"), bad + bad + bad) << "no character";
  EXPECT_EQ(printable("\x7f\x1b"), bad + bad);
}

TEST(Drawing_Axis, PutsValuesWhereTheyBelong) {
  const Axis linear{0, 10, 100, 200};
  EXPECT_DOUBLE_EQ(linear.at(2.5), 125);
  const Axis up{1, 10000, 400, 0, true};
  EXPECT_DOUBLE_EQ(up.at(1), 400);
  EXPECT_DOUBLE_EQ(up.at(100), 200);
  EXPECT_DOUBLE_EQ((Axis{3, 3, 7, 9}.at(3)), 7);
}

TEST(Drawing_Axis, HasRoundTicks) {
  EXPECT_THAT((Axis{0, 10, 0, 1}.ticks(5)), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT((Axis{0, 0.7, 0, 1}.ticks(2)), ElementsAre(0, 0.5));
  EXPECT_THAT((Axis{8, 100000, 0, 1, true}.ticks(6)), ElementsAre(10, 100, 1000, 10000, 100000));
  EXPECT_THAT((Axis{1, 40, 0, 1, true}.ticks(6)), ElementsAre(1, 2, 5, 10, 20));
  const Axis around = decades_around(3e-6, 0.1, 0, 1);
  EXPECT_DOUBLE_EQ(around.least, 1e-6);
  EXPECT_DOUBLE_EQ(around.most, 0.1);
  EXPECT_DOUBLE_EQ(decades_around(10, 10, 0, 1).most, 100);
}

TEST(Drawing_Colours, TellHowFullALinkIs) {
  EXPECT_EQ(use_class(0), "use0");
  EXPECT_EQ(use_class(0.001), "use1");
  EXPECT_EQ(use_class(0.25), "use2");
  EXPECT_EQ(use_class(0.74), "use3");
  EXPECT_EQ(use_class(0.75), "use4");
  EXPECT_EQ(use_class(0.9), "use5");
  EXPECT_EQ(use_class(1), "use5");
}

bool overlap(const Shape& a, const Shape& b) {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}

/// Three boxes in rows of at most two, one with squares in it.
TEST(Drawing_Parts, LieInsideEachOther_AndBesideEachOther) {
  Part squares{.classes = "child", .heading = "c"};
  for (int i = 0; i < 50; ++i) squares.inside.push_back({.classes = "square"});
  squares.row_width = 10 * (kSquare + 4);
  const Part all{.classes = "outer",
                 .heading = "all",
                 .inside = {{.classes = "child", .heading = "a", .lines = {"a long line of text"}},
                            {.classes = "child", .heading = "b"},
                            squares},
                 .row_width = 180};
  const std::string svg = draw_parts(all, "t");
  const auto outer = shapes_of(svg, "outer"), children = shapes_of(svg, "child"), leaves = shapes_of(svg, "square");
  ASSERT_EQ(outer.size(), 1U);
  ASSERT_EQ(children.size(), 3U);
  ASSERT_EQ(leaves.size(), 50U);
  for (std::size_t i = 0; i < children.size(); ++i) {
    EXPECT_TRUE(holds(outer[0], children[i]));
    for (std::size_t j = 0; j < i; ++j) EXPECT_FALSE(overlap(children[i], children[j]));
  }
  EXPECT_EQ(children[0].y, children[1].y);
  EXPECT_GT(children[2].y, children[0].y) << "180 wide rows hold two of them";
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    EXPECT_TRUE(holds(children[2], leaves[i]));
    for (std::size_t j = 0; j < i; ++j) EXPECT_FALSE(overlap(leaves[i], leaves[j]));
  }
  EXPECT_FALSE(holds(leaves[0], outer[0])) << "the check would see it";
}

TEST(Drawing_Plot, PutsPointsBetweenTheAxes_AndNamesApart) {
  Plot plot{.title = "t", .x_name = "ranks", .y_name = "time", .x_ticks = {8, 16, 32}};
  for (const std::string name : {"a", "b", "c"})
    plot.series.push_back({.name = name, .label = name + " label", .points = {{8, 1e-5, "p"}, {32, 2e-3, "q"}}});
  plot.strip = {{8, 2}, {32, 0}};
  const std::string svg = draw_plot(plot);
  const auto axes = shapes_of(svg, "axis");
  ASSERT_EQ(axes.size(), 2U);
  const Shape between{.x = axes[0].x, .y = axes[1].y, .width = axes[0].width, .height = axes[1].height};
  EXPECT_GT(between.width * between.height, 0);
  std::vector<double> first, last, labels;
  for (const Shape& s : shapes_of(svg)) {
    if (s.element == "circle") {
      EXPECT_TRUE(holds(between, s)) << s.tooltip;
      EXPECT_NEAR(s.x, s.tooltip == "p" ? between.x : between.x + between.width, 0.01) << "at the ends of the ticks";
      (s.tooltip == "p" ? first : last).push_back(s.y);
    }
    if (s.text.ends_with(" label")) labels.push_back(s.y);
  }
  ASSERT_EQ(first.size(), 3U);
  ASSERT_EQ(last.size(), 3U);
  EXPECT_LT(last[0], first[0]) << "more time is further up";
  std::ranges::sort(labels);
  ASSERT_EQ(labels.size(), 3U);
  EXPECT_GE(labels[1] - labels[0], 12);
  EXPECT_GE(labels[2] - labels[1], 12);
  const auto strip = shapes_of(svg, "strip");
  ASSERT_EQ(strip.size(), 2U);
  EXPECT_EQ(strip[0].tooltip, "8 ranks: c");
  EXPECT_DOUBLE_EQ(strip[0].x + strip[0].width, strip[1].x);
}

TEST(Drawing_Plot, BreaksATitle_ThatIsWiderThanThePicture) {
  Plot plot{.title = "a title", .x_ticks = {1}, .series = {{.name = "a", .label = "a", .points = {{1, 1, ""}}}}};
  const auto height_of = [](const std::string& svg) { return shapes_of(svg, "paper").front().height; };
  const double of_one_line = height_of(draw_plot(plot));
  for (int i = 0; i < 10; ++i) plot.title += ", and a further part";
  const std::string svg = draw_plot(plot);
  std::string whole;
  double y = 0;
  for (const Shape& line : shapes_of(svg, "head")) {
    EXPECT_LE(line.x + text_width(line.text, 16), shapes_of(svg, "paper").front().width);
    EXPECT_GE(line.y, y + 16);
    y = line.y;
    whole += (whole.empty() ? "" : " ") + line.text;
  }
  EXPECT_EQ(whole, plot.title);
  EXPECT_EQ(shapes_of(svg, "head").size(), 3U) << "10 parts of 20 letters, 99 of which fit";
  EXPECT_DOUBLE_EQ(height_of(svg), of_one_line + 2 * 20);
}

TEST(Drawing_Text, IsBrokenAfterCommas_WhereALineHasOne) {
  EXPECT_THAT(wrapped("one, two three, four", text_width("one, two thr")), ElementsAre("one,", "two three,", "four"));
  EXPECT_THAT(wrapped("one two three", text_width("one two")), ElementsAre("one two", "three"));
  EXPECT_THAT(wrapped("one", text_width("on")), ElementsAre("one"));
  EXPECT_THAT(wrapped("unbroken one", text_width("one")), ElementsAre("unbroken", "one"));
  EXPECT_THAT(wrapped("", 0), ElementsAre(""));
}

TEST(Drawing_Plot, Refuses_WhereThereIsNothingToDraw) {
  EXPECT_THROW(draw_plot({.title = "t", .x_ticks = {1}}), std::invalid_argument);
  EXPECT_THROW(
      draw_plot({.title = "t", .x_ticks = {}, .series = {{.name = "a", .label = "a", .points = {{1, 1, ""}}}}}),
      std::invalid_argument);
}

}  // namespace
}  // namespace sinew::test
