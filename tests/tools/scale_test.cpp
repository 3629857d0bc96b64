#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <support/run_program.hpp>
#include <support/scratch_folder.hpp>

#include "drawing.hpp"

namespace sinew::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

Outcome sim(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), SINEW_SIM);
  return run_program(arguments, {});
}

json json_of(const std::vector<std::string>& arguments) {
  const Outcome o = sim(arguments);
  EXPECT_EQ(o.exit_code, 0) << o.err;
  return json::parse(o.out);
}

std::string name_of(const json& way) {
  return way.contains("way") ? fmt::format("{}, {}", std::string(way["algorithm"]), std::string(way["way"]))
                             : std::string(way["algorithm"]);
}

using Times = std::map<std::string, double>;

Times times_of(const json& ways) {
  Times times;
  for (const auto& way : ways) {
    if (way.contains("time_us")) times[name_of(way)] = way["time_us"];
  }
  return times;
}

const std::vector<std::string> kSweep = {"all_reduce", "1MiB",    "--cluster", "dgx-h100", "--network",
                                         "fat_tree",   "--scale", "8..50",     "--json"};

TEST(SimScale, GoesByFactorsOfTwo_AndEndsAtTheMost) {
  const json scale = json_of(kSweep);
  std::vector<int> ranks, hosts;
  for (const auto& point : scale["points"]) {
    ranks.push_back(point["ranks"]);
    hosts.push_back(point["hosts"]);
  }
  EXPECT_THAT(hosts, testing::ElementsAre(1, 2, 4, 6));
  EXPECT_THAT(ranks, testing::ElementsAre(8, 16, 32, 48));
  EXPECT_EQ(scale["network"], "fat_tree");
  EXPECT_EQ(scale["hosts_per_leaf"], 32);
}

TEST(SimScale, SaysWhatASimulationOfEachSizeSays) {
  const json scale = json_of(kSweep);
  for (const auto& point : scale["points"]) {
    const std::string cluster = fmt::format("dgx-h100x{}", int(point["hosts"]));
    const json alone = json_of({"all_reduce", "1MiB", "--cluster", cluster, "--network", "fat_tree", "--json"});
    EXPECT_EQ(times_of(point["algorithms"]), times_of(alone["algorithms"])) << cluster;
    EXPECT_EQ(point["fastest"], name_of(alone["algorithms"][0])) << cluster;
  }
}

TEST(SimScale, PlotsWhatTheTableSays) {
  const ScratchFolder folder;
  std::vector<std::string> arguments = kSweep;
  arguments.insert(arguments.end(), {"--svg", folder / "plot.svg"});
  const json scale = json_of(arguments);
  const std::string svg = text_of(folder / "plot.svg");
  std::multiset<std::string> expected, plotted;
  std::vector<std::string> winners, strip;
  for (const auto& point : scale["points"]) {
    for (const auto& [name, us] : times_of(point["algorithms"])) {
      for (const auto& way : point["algorithms"]) {
        if (name_of(way) != name) continue;
        expected.insert(fmt::format("{} ranks: {:.2f} us{}, {}", int(point["ranks"]), us,
                                    way["exact"] ? "" : " (approximation)", name));
      }
    }
    winners.push_back(fmt::format("{} ranks: {}", int(point["ranks"]), std::string(point["fastest"])));
  }
  const double right = shapes_of(svg, "paper").front().width;
  for (const Shape& shape : shapes_of(svg)) {
    if (shape.is("strip")) strip.push_back(shape.tooltip);
    if (shape.element != "circle") continue;
    plotted.insert(shape.tooltip);
    EXPECT_GT(shape.x, 0);
    EXPECT_LT(shape.x, right);
  }
  EXPECT_EQ(plotted, expected);
  EXPECT_EQ(strip, winners);
}

/// Of two points of a curve the one of more time is further up, as much as its logarithm says.
TEST(SimScale, PlotsTimesOnALogarithmicAxis) {
  const Outcome o =
      sim({"all_gather", "1MiB", "--cluster", "dgx-h100", "--scale", "8..64", "--algorithm", "ring", "--svg", "-"});
  ASSERT_EQ(o.exit_code, 0) << o.err;
  std::vector<std::pair<double, double>> points;  // logarithm of time, y
  for (const Shape& shape : shapes_of(o.out)) {
    if (shape.element == "circle")
      points.emplace_back(std::log(std::stod(shape.tooltip.substr(shape.tooltip.find(": ") + 2))), shape.y);
  }
  ASSERT_EQ(points.size(), 4U);
  const double slope = (points[3].second - points[0].second) / (points[3].first - points[0].first);
  EXPECT_LT(slope, 0);
  for (const auto& [time, y] : points) EXPECT_NEAR(y, points[0].second + slope * (time - points[0].first), 0.5);
}

TEST(SimScale, PrintsATable_WithTheFastestMarked_AndWhatWasLeftOut) {
  const Outcome o = sim({"all_gather", "256", "--cluster", "dgx-h100", "--scale", "8..128"});
  EXPECT_EQ(o.exit_code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("all_gather of 256B on hosts of dgx-h100, 8 to 128 ranks, one_switch\n"));
  EXPECT_THAT(o.out, HasSubstr("\n      64 "));
  EXPECT_THAT(o.out, HasSubstr("*"));
  EXPECT_THAT(o.out, HasSubstr("\nThe fastest:\n  8 "));
  EXPECT_THAT(o.out, HasSubstr("\nNot simulated:\n  128 ranks: all_gather of 256: expected 512B at least, an element "
                               "for each of 128 ranks\n"));
}

TEST(SimScale, RefusesWhatIsNoRange) {
  const auto complaint = [](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"all_reduce", "1MiB"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome o = sim(arguments);
    EXPECT_EQ(o.exit_code, 2) << o.err;
    EXPECT_EQ(o.out, "");
    EXPECT_EQ(std::ranges::count(o.err, '\n'), 1) << o.err;
    return o.err;
  };
  for (const char* range : {"8", "64..8", "0..8", "8..x", "8..99999999999", "..", "8...9"}) {
    EXPECT_THAT(complaint({"--cluster", "dgx-h100", "--scale", range}), HasSubstr("such as 8..100000")) << range;
  }
  EXPECT_THAT(complaint({"--cluster", "dgx-h100", "--scale", "9..15"}), HasSubstr("holds a multiple of 8"));
  EXPECT_THAT(complaint({"--cluster", "dgx-h100x4", "--scale", "8..64"}), HasSubstr("expected a machine"));
  EXPECT_THAT(complaint({"--cluster", "dgx-h100", "--scale", "8..64", "--trace", "x"}), HasSubstr("not --scale"));
  EXPECT_THAT(complaint({"--cluster", "dgx-h100", "--scale", "8..64", "--algorithm", "x"}), HasSubstr("'x'"));
}

}  // namespace
}  // namespace sinew::test
