#include <algorithm>
#include <filesystem>
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

struct Simulated {
  json way;  // the fastest
  std::string svg;
  json trace;
};

Simulated simulated(std::vector<std::string> arguments) {
  const ScratchFolder folder;
  arguments.insert(arguments.begin(), SINEW_SIM);
  arguments.insert(arguments.end(), {"--json", "--svg", folder / "a.svg", "--trace", folder / "a.json"});
  const Outcome o = run_program(arguments, {});
  EXPECT_EQ(o.exit_code, 0) << o.err;
  return {json::parse(o.out)["algorithms"][0], text_of(folder / "a.svg"), json::parse(text_of(folder / "a.json"))};
}

const std::vector<std::string> kTwoHosts = {"all_reduce", "1MiB",      "--cluster",
                                            "dgx-h100x2", "--network", "rail_optimised"};

std::vector<std::string> with(std::vector<std::string> arguments, const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

bool is_span(const Shape& shape) {
  const bool step = shape.is("send") || shape.is("recv") || shape.is("copy") || shape.is("reduce");
  return step && !shape.tooltip.empty();  // those of the legend have none
}

std::vector<Shape> spans_of(const std::string& svg) {
  std::vector<Shape> shapes = shapes_of(svg);
  std::erase_if(shapes, [](const Shape& s) { return !is_span(s); });
  return shapes;
}

TEST(SimPicture, HasALaneForEachSimulatedRank_AndEverySpanOnIt) {
  const Simulated s = simulated(with(kTwoHosts, {"--algorithm", "ring"}));
  const auto lanes = shapes_of(s.svg, "lane");
  ASSERT_EQ(lanes.size(), s.way["simulated_ranks"]);
  std::map<std::string, std::set<std::string>> tooltips;
  std::size_t spans = 0;
  const double right = shapes_of(s.svg, "paper").front().width - 20;
  for (const Shape& span : spans_of(s.svg)) {
    ++spans;
    EXPECT_GE(span.x, 20 + 72) << span.tooltip;
    EXPECT_LE(span.x + span.width, right + 0.02) << span.tooltip;
    EXPECT_GT(span.height, 0);
    const std::string rank = span.tooltip.substr(0, span.tooltip.find(' ', 5));
    EXPECT_TRUE(tooltips[rank].insert(span.tooltip.substr(0, span.tooltip.find(':'))).second) << span.tooltip;
    const auto segment = span.tooltip.find("segment ") + 8;
    EXPECT_EQ(span.is("odd"), std::stoi(span.tooltip.substr(segment)) % 2 == 1);
  }
  EXPECT_EQ(tooltips.size(), lanes.size());
  for (const Shape& lane : lanes) EXPECT_TRUE(tooltips.contains(lane.text)) << lane.text;
  const std::size_t events =
      std::ranges::count_if(s.trace["traceEvents"], [](const json& e) { return e["ph"] == "X"; });
  EXPECT_EQ(spans, events);
}

/// Sixteen ranks on a ring: each sends 15 parts round to be summed, and 15 sums.
TEST(SimPicture, DrawsEveryMessageOfARing) {
  const Simulated s = simulated(with(kTwoHosts, {"--algorithm", "ring"}));
  std::map<std::string, int> sends;
  for (const Shape& span : spans_of(s.svg)) {
    if (span.is("send")) ++sends[span.tooltip.substr(0, span.tooltip.find(' ', 5))];
  }
  ASSERT_EQ(sends.size(), s.way["simulated_ranks"]);
  for (const auto& [rank, count] : sends) EXPECT_EQ(count, 2 * 15 * int(s.way["segments"])) << rank;
}

std::string use_of(double utilisation) {
  return utilisation <= 0     ? "use0"
         : utilisation < 0.25 ? "use1"
         : utilisation < 0.5  ? "use2"
         : utilisation < 0.75 ? "use3"
         : utilisation < 0.9  ? "use4"
                              : "use5";
}

/// A ring passes 14 NICs by: of each of two hosts it leaves by one and enters by another.
TEST(SimPicture, ColoursEachLinkByItsOwnLoad) {
  const Simulated s = simulated(with(kTwoHosts, {"--algorithm", "ring"}));
  std::vector<std::string> tiers, expected;
  for (const Shape& shape : shapes_of(s.svg, "tier")) tiers.push_back(shape.text);
  for (const auto& load : s.way["loads"]) expected.push_back(load["links"]);
  EXPECT_EQ(tiers, expected);
  ASSERT_FALSE(expected.empty());
  for (const auto& load : s.way["loads"]) {
    int links = 0, used = 0;
    for (const Shape& line : shapes_of(s.svg, "link")) {
      if (!line.tooltip.starts_with(std::string(load["links"]) + " ")) continue;
      ++links;
      const bool idle = line.tooltip.find(": 0 bytes, 0.0 %") != std::string::npos;
      EXPECT_EQ(line.is("use0"), idle) << line.tooltip;
      if (idle) continue;
      ++used;
      EXPECT_TRUE(line.is(use_of(load["utilisation"]))) << line.tooltip;  // of a ring all that are used are alike
      EXPECT_THAT(line.tooltip, HasSubstr(fmt::format(": {:.0f} bytes", double(load["busiest_bytes"]))));
    }
    EXPECT_EQ(links, int(load["count"])) << load["links"] << ": of two hosts all are drawn";
    EXPECT_EQ(used, int(load["used"])) << load["links"];
    if (load["links"] == "nic out" || load["links"] == "nic in") {
      EXPECT_EQ(used, 2);
    } else if (load["links"] == "rank out") {
      EXPECT_EQ(used, 14);
    }
  }
  EXPECT_THAT(s.svg, HasSubstr(">2 of 16<"));
}

TEST(SimPicture, DrawsTheRanksThatAHostHas_OfUnequalHosts) {
  const Simulated s = simulated({"all_reduce", "1MiB", "--cluster", "xeon-2s:3+5", "--algorithm", "ring"});
  std::vector<std::string> ranks;
  for (const Shape& part : shapes_of(s.svg, "gpu")) ranks.push_back(part.tooltip);
  EXPECT_THAT(ranks,
              testing::ElementsAre("rank 0", "rank 1", "rank 2", "rank 3", "rank 4", "rank 5", "rank 6", "rank 7"));
}

TEST(SimPicture, SaysThatLinksAreAlike_WhereOneRankStandsForMany) {
  const char* alike = "links of ranks that behave alike, of which one was simulated, are alike";
  const Simulated one = simulated(with(kTwoHosts, {"--algorithm", "ring"}));
  ASSERT_LT(one.way["simulated_ranks"], 16);
  EXPECT_THAT(one.svg, HasSubstr(alike));
  const Simulated all = simulated({"all_reduce", "1MiB", "--cluster", "xeon-2s:3+5", "--algorithm", "ring"});
  ASSERT_EQ(all.way["simulated_ranks"], 8);
  EXPECT_THAT(all.svg, testing::Not(HasSubstr(alike)));
}

TEST(SimPicture, DrawsTheFastest_UnlessOneIsNamed) {
  const Simulated fastest = simulated(kTwoHosts);
  ASSERT_NE(fastest.way["algorithm"], "ring") << "or the next shows nothing";
  const Simulated named = simulated(with(kTwoHosts, {"--algorithm", "ring"}));
  EXPECT_EQ(named.way["algorithm"], "ring");
  for (const Simulated* s : {&fastest, &named}) {
    std::string name = s->way["algorithm"];
    if (s->way.contains("way")) name += ", " + std::string(s->way["way"]);
    EXPECT_THAT(s->svg, HasSubstr(">" + name + ": "));
    EXPECT_THAT(std::string(s->trace["otherData"]["title"]), testing::EndsWith(": " + name));
  }
}

TEST(SimPicture, SaysWhatIsLeftOut_OfManyHostsAndLongCalls) {
  const Simulated s = simulated({"all_reduce", "64MiB", "--cluster", "dgx-h100x32", "--network", "fat_tree",
                                 "--hosts-per-leaf", "8", "--algorithm", "ring"});
  EXPECT_THAT(s.svg, HasSubstr("4 of 32 hosts drawn, 2 of 4 leaves"));
  EXPECT_THAT(s.svg, testing::ContainsRegex("the first [0-9.]+ .s of [0-9.]+ .s; 4000 of [0-9]+ spans"));
  EXPECT_EQ(spans_of(s.svg).size(), 4000U);
  std::set<std::string> hosts;
  for (const Shape& text : shapes_of(s.svg, "ink")) {
    if (text.text.starts_with("host ")) hosts.insert(text.text);
  }
  EXPECT_THAT(hosts, testing::ElementsAre("host 0", "host 1", "host 8", "host 9"));
  EXPECT_LT(s.svg.size(), 1'500'000U);
}

double end_of(const json& event) { return double(event["ts"]) + double(event["dur"]); }

/// Pairs of spans of one thread, as `thread` tells it, of which the second begins before the first has ended.
template <class Thread>
int overlaps(const json& trace, Thread thread) {
  std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> spans;
  for (const auto& e : trace["traceEvents"]) {
    if (e["ph"] == "X") spans[{e["pid"], thread(e)}].emplace_back(double(e["ts"]), end_of(e));
  }
  int found = 0;
  for (auto& [where, list] : spans) {
    std::ranges::sort(list);
    for (std::size_t i = 1; i < list.size(); ++i) found += list[i].first < list[i - 1].second * (1 - 1e-6) ? 1 : 0;
  }
  return found;
}

TEST(SimTrace, EndsWithTheForecast_AndNamesEveryThread) {
  const Simulated s = simulated(with(kTwoHosts, {"--algorithm", "direct"}));
  ASSERT_EQ(s.way["simulated_segments"], s.way["segments"]);
  double end = 0;
  std::set<std::pair<int, int>> used, named;
  std::set<int> ranks, named_ranks;
  for (const auto& e : s.trace["traceEvents"]) {
    const std::pair<int, int> thread{e["pid"], e["tid"]};
    if (e["ph"] == "X") {
      EXPECT_GE(double(e["dur"]), 0);
      end = std::max(end, end_of(e));
      used.insert(thread);
      ranks.insert(thread.first);
    } else if (e["name"] == "thread_name") {
      named.insert(thread);
    } else if (e["name"] == "process_name") {
      EXPECT_EQ(e["args"]["name"], "rank " + std::to_string(thread.first));
      named_ranks.insert(thread.first);
    }
  }
  EXPECT_NEAR(end, s.way["time_us"], 1e-6 * end);
  EXPECT_EQ(s.trace["otherData"]["spans_left_out"], 0);
  EXPECT_EQ(ranks.size(), s.way["simulated_ranks"]);
  EXPECT_EQ(used, named);
  EXPECT_EQ(ranks, named_ranks);
}

TEST(SimTrace, PutsSpansOfOneTimeOnThreadsOfTheirOwn) {
  const Simulated s = simulated(with(kTwoHosts, {"--algorithm", "direct"}));
  EXPECT_EQ(overlaps(s.trace, [](const json& e) { return int(e["tid"]); }), 0);
  EXPECT_GT(overlaps(s.trace, [](const json& e) { return int(e["tid"]) % 4; }), 0) << "sends to all at once";
}

TEST(SimPicture, EndsWithOneLine_WhenItCannotBeMade) {
  const ScratchFolder folder;
  const auto complaint = [](const std::vector<std::string>& arguments, int exit_code) {
    const Outcome o = run_program(with({SINEW_SIM}, arguments), {});
    EXPECT_EQ(o.exit_code, exit_code) << o.err;
    EXPECT_EQ(std::ranges::count(o.err, '\n'), 1) << o.err;
    return o.err;
  };
  EXPECT_THAT(complaint(with(kTwoHosts, {"--svg", folder / "no/a.svg"}), 2),
              testing::AllOf(HasSubstr("--svg: '"), HasSubstr("expected a file that can be written: No such file")));
  EXPECT_THAT(complaint(with(kTwoHosts, {"--trace", folder / "no/a.json"}), 2), HasSubstr("--trace: '"));
  EXPECT_THAT(complaint(with(kTwoHosts, {"--svg", "/dev/full"}), 1), HasSubstr("No space left on device"));
  EXPECT_THAT(complaint(with(kTwoHosts, {"--svg", folder / "a.svg", "--algorithm", "none"}), 2), HasSubstr("'none'"));
  EXPECT_FALSE(std::filesystem::exists(folder / "a.svg")) << "nothing is left behind";
}

}  // namespace
}  // namespace sinew::test
