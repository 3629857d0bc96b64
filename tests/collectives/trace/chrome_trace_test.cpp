#include <sstream>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <sinew/collectives/trace/chrome_trace.hpp>

namespace sinew {
namespace {

using Json = nlohmann::json;

TEST(ChromeTrace, IsWholeWithoutEvents) {
  std::ostringstream text;
  ChromeTrace(text).end();
  const Json trace = Json::parse(text.str());
  EXPECT_TRUE(trace.at("traceEvents").empty());
  EXPECT_TRUE(trace.at("otherData").empty());
}

TEST(ChromeTrace, WritesEachEventAtOnce) {
  std::ostringstream text;
  ChromeTrace trace(text, {{"title", "two ranks"}, {"left_out", 3U}});
  trace.name_process(1, "rank 1");
  trace.name_thread({1, 7}, "sends");
  trace.span({.lane = {1, 7}, .name = "send", .category = "message", .start_us = 0.125, .fields = {{"bytes", 8U}}},
             2.5);
  const std::size_t before = text.str().size();
  trace.instant({.lane = {1, 7}, .name = "late", .start_us = 3});
  EXPECT_GT(text.str().size(), before) << "nothing is kept until the end";
  trace.open_span({.lane = {1, 7}, .name = "lost", .start_us = 4, .fields = {{"peer", -1}, {"in_place", true}}});
  trace.end();

  const Json read = Json::parse(text.str());
  EXPECT_EQ(read.at("otherData"), (Json{{"title", "two ranks"}, {"left_out", 3}}));
  const Json& events = read.at("traceEvents");
  ASSERT_EQ(events.size(), 6U);
  EXPECT_EQ(events[0],
            (Json{{"ph", "M"}, {"name", "process_name"}, {"pid", 1}, {"tid", 0}, {"args", {{"name", "rank 1"}}}}));
  EXPECT_EQ(events[1].at("args"), (Json{{"sort_index", 1}}));
  EXPECT_EQ(events[2],
            (Json{{"ph", "M"}, {"name", "thread_name"}, {"pid", 1}, {"tid", 7}, {"args", {{"name", "sends"}}}}));
  EXPECT_EQ(events[3], (Json{{"ph", "X"},
                             {"name", "send"},
                             {"cat", "message"},
                             {"pid", 1},
                             {"tid", 7},
                             {"ts", 0.125},
                             {"dur", 2.5},
                             {"args", {{"bytes", 8}}}}));
  EXPECT_EQ(events[4].at("ph"), "i");
  EXPECT_FALSE(events[4].contains("dur"));
  EXPECT_EQ(events[5].at("ph"), "B");
  EXPECT_EQ(events[5].at("args"), (Json{{"peer", -1}, {"in_place", true}}));
}

TEST(ChromeTrace, EscapesNames) {
  std::ostringstream text;
  ChromeTrace trace(text);
  trace.name_process(0, "\"quoted\" \\ \n \xff");
  trace.end();
  EXPECT_EQ(Json::parse(text.str()).at("traceEvents")[0].at("args").at("name"), "\"quoted\" \\ \n \xef\xbf\xbd");
}

}  // namespace
}  // namespace sinew
