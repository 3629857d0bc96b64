#include <cstddef>
#include <cstdint>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <sinew/parallel/pipeline/generators/generators.hpp>
#include <sinew/parallel/pipeline/passes/passes.hpp>
#include <sinew/parallel/pipeline/timeline/picture.hpp>
#include <sinew/parallel/pipeline/timeline/simulate.hpp>

namespace sinew::parallel {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++found;
  return found;
}

TEST(Svg, HasABoxForEachCompute_WithItsTimes) {
  const PipelineSchedule schedule = with_messages(one_forward_one_backward(3, 4));
  const std::string svg = svg_of(schedule, simulate(schedule));
  EXPECT_EQ(count(svg, "<rect class='forward'"), 12);
  EXPECT_EQ(count(svg, "<rect class='backward'"), 12);
  EXPECT_EQ(count(svg, "<rect class='lane'"), 3);
  EXPECT_THAT(svg, HasSubstr("<title>2B0, 3 to 5</title>"));
  EXPECT_THAT(svg, HasSubstr("1f1b: 3 ranks, 3 stages, 4 micro-batches, time 18"));
  EXPECT_THAT(svg, HasSubstr("<title>idle 6 of 18</title>"));
  EXPECT_EQ(count(svg, "<title>"), 12 + 12 + 3 + 1);
  EXPECT_EQ(svg, svg_of(schedule, simulate(schedule)));
}

TEST(Svg, ColoursParts_AndEscapesNames) {
  PipelineSchedule schedule = with_recompute(zero_bubble_h1(2, 3));
  schedule.name = "<script>&\n\xff";
  const std::string svg = svg_of(schedule, simulate(schedule));
  for (const char* part : {"input", "weight", "again"})
    EXPECT_THAT(svg, HasSubstr("<rect class='" + std::string(part)));
  EXPECT_THAT(svg, HasSubstr("&lt;script&gt;&amp;??"));
  EXPECT_THAT(svg, Not(HasSubstr("<script>")));
}

TEST(Svg, DrawsTheFirstBoxesOfALongTimeLine) {
  const PipelineSchedule schedule = gpipe(4, 5000);
  const std::string svg = svg_of(schedule, simulate(schedule));
  EXPECT_THAT(svg, HasSubstr("the first 20000 of 40000 boxes"));
  EXPECT_LT(svg.size(), 5'000'000U);
}

TEST(Trace, HasAnEventForEachAction) {
  const PipelineSchedule schedule = with_sharding(with_messages(interleaved(2, 4, 2)));
  const PipelineTimeLine line = simulate(schedule);
  const json trace = json::parse(trace_of(schedule, line));
  EXPECT_EQ(trace["otherData"]["makespan"], line.makespan);
  std::size_t spans = 0, instants = 0, names = 0;
  std::int64_t busy = 0;
  std::set<std::string> seen;
  for (const json& event : trace["traceEvents"]) {
    spans += event["ph"] == "X" ? 1 : 0;
    instants += event["ph"] == "i" ? 1 : 0;
    names += event["name"] == "process_name" || event["name"] == "thread_name" ? 1 : 0;
    if (event["ph"] == "X") busy += event["dur"].get<std::int64_t>();
    seen.insert(event["name"].get<std::string>());
  }
  EXPECT_EQ(spans, 2 * 2 * 2 * 4);
  EXPECT_EQ(spans + instants, schedule.actions[0].size() + schedule.actions[1].size());
  EXPECT_EQ(names, 6);
  EXPECT_EQ(busy, line.busy[0] + line.busy[1]);
  EXPECT_TRUE(seen.contains("3B2") && seen.contains("0SEND_F1") && seen.contains("2UNSHARD"));
}

}  // namespace
}  // namespace sinew::parallel
