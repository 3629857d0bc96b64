#include <sys/stat.h>

#include <fstream>
#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/collectives/selection/times/tuned_times.hpp>
#include <sinew/core/error.hpp>

#include "support/log_guard.hpp"
#include "support/scratch_folder.hpp"

namespace sinew {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TunedTimes some_times() {
  return {"a machine", {2, 1}, {{"all_reduce", "ring", "tcp", {{16, 1e-6}, {64, 4e-6}, {1024, 4e-6}}}}};
}

std::string refusal(const std::string& text) {
  try {
    static_cast<void>(tuned_times_from(text, "times.json"));
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::InvalidArgument);
    return e.what();
  }
  return {};
}

TEST(TunedTimes, AreReadBetweenPoints) {
  const TunedTimes times = some_times();
  const auto at = [&](double bytes) { return times.seconds("all_reduce", "ring", "tcp", bytes).value_or(-1); };
  EXPECT_DOUBLE_EQ(at(16), 1e-6);
  EXPECT_DOUBLE_EQ(at(32), 2e-6);  // half way on both logarithmic scales
  EXPECT_DOUBLE_EQ(at(500), 4e-6);
  EXPECT_DOUBLE_EQ(at(1), 1e-6);      // starting costs as much
  EXPECT_DOUBLE_EQ(at(4096), 16e-6);  // the link's rate goes on
  EXPECT_FALSE(times.seconds("all_reduce", "ring", "shm", 16));
  EXPECT_FALSE(times.seconds("all_gather", "ring", "tcp", 16));
}

TEST(TunedTimes, AreTheTimesOfNoBytes) {
  const TunedTimes barrier{"a machine", {2}, {{"barrier", "dissemination", "tcp", {{0, 3e-6}}}}};
  EXPECT_DOUBLE_EQ(barrier.seconds("barrier", "dissemination", "tcp", 0).value_or(-1), 3e-6);
  EXPECT_DOUBLE_EQ(barrier.seconds("barrier", "dissemination", "tcp", 8).value_or(-1), 3e-6);
}

TEST(TunedTimes, OfDevicesAreNotThoseOfTheHost) {
  TunedTimes times = some_times();
  times.ways.push_back(times.ways.front());
  times.ways.back().devices = "NVIDIA H100";
  times.ways.back().points = {{16, 7e-6}};
  const TunedTimes back = tuned_times_from(to_text(times), "times.json");
  EXPECT_DOUBLE_EQ(back.seconds("all_reduce", "ring", "tcp", 16).value_or(-1), 1e-6);
  EXPECT_DOUBLE_EQ(back.seconds("all_reduce", "ring", "tcp", 16, "NVIDIA H100").value_or(-1), 7e-6);
  EXPECT_FALSE(back.seconds("all_reduce", "ring", "tcp", 16, "NVIDIA A100"));
}

TEST(TunedTimes, AreReadFromFilesOfTheFirstFormat) {
  std::string text = to_text(some_times());
  text.replace(text.find("\"format\": 2"), 11, "\"format\": 1");
  EXPECT_EQ(tuned_times_from(text, "times.json").ways.size(), 1u);
}

TEST(TunedTimes, ComeBackFromTheirFile) {
  const test::ScratchFolder folder;
  const std::string file = folder / "times.json";
  std::ofstream(file) << to_text(some_times());
  const auto times = load_tuned_times(file, "a machine");
  ASSERT_TRUE(times.has_value());
  EXPECT_EQ(times->ranks_on, (std::vector<int>{2, 1}));
  EXPECT_DOUBLE_EQ(times->seconds("all_reduce", "ring", "tcp", 64).value_or(-1), 4e-6);
  EXPECT_FALSE(load_tuned_times("", "a machine"));
}

TEST(TunedTimes, OfAnotherMachine_AreLeftOut) {
  const test::ScratchFolder folder;
  const std::string file = folder / "times.json";
  std::ofstream(file) << to_text(some_times());
  test::ExpectLog other(log::Level::Warning, "measured on 'a machine', and this is 'my machine'");
  EXPECT_FALSE(load_tuned_times(file, "my machine"));
}

TEST(TunedTimes, SayWhatIsWrongWithAFile) {
  const auto file_with = [](const std::string& points) {
    return R"({"format":1,"machine":"m","ranks_on_hosts":[2],"ways":[{"collective":"barrier","algorithm":"a",)"
           R"("transport":"t","points":)" +
           points + "}]}";
  };
  EXPECT_THAT(refusal("a letter"), AllOf(HasSubstr("SINEW_TUNE_FILE=times.json"), HasSubstr("expected a file that")));
  EXPECT_THAT(refusal("{}"), HasSubstr("it holds something else, or is not all there: expected a file that"));
  EXPECT_THAT(refusal(R"({"format":7})"), HasSubstr("its format is 7, this version reads 1 to 2"));
  EXPECT_THAT(refusal(file_with("[]")), HasSubstr("barrier a@t: a way without points"));
  EXPECT_THAT(refusal(file_with("[[8,1.0],[8,2.0]]")), HasSubstr("bytes that do not ascend"));
  EXPECT_THAT(refusal(file_with("[[8,0.0]]")), HasSubstr("a time that is not above 0"));
  EXPECT_THAT(refusal(file_with("[[8]]")), HasSubstr("SINEW_TUNE_FILE"));
  EXPECT_THAT(refusal(file_with("[[8,1.0,9]]")), HasSubstr("a point that is not bytes and seconds"));
  EXPECT_THAT(refusal(file_with("[[8,1e308]]")), HasSubstr("not one of this world"));
  EXPECT_EQ(refusal(file_with("[[8,1.0]]")), "");
  const auto edited = [&](std::string_view from, std::string_view to) {
    std::string text = file_with("[[8,1.0]]");
    return text.replace(text.find(from), from.size(), to);
  };
  EXPECT_THAT(refusal(edited("barrier", "barriers")), HasSubstr("barriers a@t: no collective is called so"));
  EXPECT_THAT(refusal(edited("[2]", "[]")), HasSubstr("no host"));
  EXPECT_THAT(refusal(edited("[2]", "[2,0]")), HasSubstr("a host without ranks"));
  EXPECT_THROW(static_cast<void>(load_tuned_times("/no/such/file", "m")), Error);
  const test::ScratchFolder folder;
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THROW(static_cast<void>(load_tuned_times(pipe, "m")), Error) << "instead of waiting for a writer";
}

}  // namespace
}  // namespace sinew
