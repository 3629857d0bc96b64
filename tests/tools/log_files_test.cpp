// The pieces of sinew-run that write log files and end a job, by themselves.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/core/system/file_text.hpp>
#include <sinew/tools/run/backoff.hpp>
#include <sinew/tools/run/output/last_lines.hpp>
#include <sinew/tools/run/output/rank_logs.hpp>
#include <support/scratch_folder.hpp>

namespace sinew::run {
namespace {

using namespace std::chrono_literals;
using sinew::test::ScratchFolder;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

TEST(RankSet, ReadsRanksAndRanges) {
  EXPECT_THAT(parse_ranks("--tee", "3"), ElementsAre(Pair(3, 3)));
  EXPECT_THAT(parse_ranks("--tee", "0,8-15,100-"), ElementsAre(Pair(0, 0), Pair(8, 15), Pair(100, kHighestRank)));
  EXPECT_THAT(parse_ranks("--tee", "all"), ElementsAre(Pair(0, kHighestRank)));
  for (const char* wrong : {"", ",", "1,", ",1", "x", "-1", "5-3", "1-2-3", "65536", "1 2"}) {
    try {
      parse_ranks("--tee", wrong);
      ADD_FAILURE() << wrong;
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), HasSubstr(fmt::format("--tee={}: expected ranks of 0 to 65535, such as", wrong)));
    }
  }
}

TEST(RankSet, KnowsTheOthersAndWhatTwoShare) {
  EXPECT_THAT(all_but({{8, 9}, {0, 3}}), ElementsAre(Pair(4, 7), Pair(10, kHighestRank)));
  EXPECT_TRUE(all_but({{0, kHighestRank}}).empty());
  EXPECT_EQ(common_rank({{0, 3}, {9, 9}}, {{4, 10}}), 9);
  EXPECT_EQ(common_rank({{0, 3}}, {{4, 10}}), -1);
  EXPECT_EQ(ranges_of({7}), "rank 7");
  EXPECT_EQ(ranges_of({0, 1, 2, 5, 6, 9}), "ranks 0-2, 5, 6, 9");
}

std::string text(const std::string& path) { return file_text(path).value_or("(none)"); }

TEST(RotatedFile, KeepsTheNewestFiles_AndCutsBetweenLines) {
  const ScratchFolder folder;
  RotatedFile file(folder / "log", {.bytes = 10, .kept = 2});
  for (const char* line : {"aaaa\n", "bbbb\n", "cccc\ndddd\n", "eeee\nffff\n", "gg\n"}) file.write(line);
  EXPECT_EQ(text(folder / "log"), "gg\n");
  EXPECT_EQ(text(folder / "log.1"), "eeee\nffff\n");
  EXPECT_EQ(text(folder / "log.2"), "cccc\ndddd\n");
  EXPECT_EQ(text(folder / "log.3"), "(none)");
}

TEST(RotatedFile, CutsOnlyLinesThatFitNowhere) {
  const ScratchFolder folder;
  RotatedFile file(folder / "log", {.bytes = 10, .kept = 9});
  file.write("aaa\n");
  file.write("bbbbbbbb\n");  // does not fit behind the first line
  file.write("0123456789012345678901234\n");
  EXPECT_EQ(text(folder / "log.4"), "aaa\n");
  EXPECT_EQ(text(folder / "log.3"), "bbbbbbbb\n0");
  EXPECT_EQ(text(folder / "log.2"), "1234567890");
  EXPECT_EQ(text(folder / "log.1"), "1234567890");
  EXPECT_EQ(text(folder / "log"), "1234\n");
}

TEST(LastLines, GivesWholeLines_AndNoMoreThanFit) {
  LastLines few;
  few.take("one\ntw");
  few.take("o\nthree");
  EXPECT_EQ(few.text(), "one\ntwo\nthree");
  EXPECT_EQ(LastLines().text(), "");
  LastLines many;
  for (int i = 0; i < 1000; ++i) many.take(fmt::format("line {}\n", i));
  EXPECT_TRUE(many.text().starts_with("line 980\n")) << many.text();
  EXPECT_TRUE(many.text().ends_with("line 999\n"));
  LastLines wide;
  wide.take("begin\n" + std::string(3000, 'x') + "\n" + std::string(2000, 'y') + "\n");
  EXPECT_EQ(wide.text(), std::string(2000, 'y') + "\n");
  LastLines endless;
  endless.take(std::string(100'000, 'z'));
  EXPECT_EQ(endless.text(), std::string(LastLines::kBytes, 'z'));
}

TEST(Backoff, DoublesUntilAStartHasLivedLong) {
  Backoff backoff{BackoffTimes{}};
  for (const auto wait : {1s, 2s, 4s, 8s, 16s, 32s, 60s, 60s}) EXPECT_EQ(backoff.after(10s), wait);
  EXPECT_EQ(backoff.after(Backoff::kHealthy), 1s);
  EXPECT_EQ(backoff.after(10s), 2s);
}

TEST(RankLogs, WriteEachStreamToItsFile_AndSayWhatIsPrinted) {
  const ScratchFolder folder;
  std::vector<std::string> warnings;
  RankLogs logs({.folder = folder / "run", .rotation = {}, .printed = {{1, 1}}},
                [&](const std::string& why) { warnings.push_back(why); });
  for (const int rank : {0, 1}) logs.open(rank);
  EXPECT_FALSE(logs.take({0, Stream::Output}, "zero\n"));
  EXPECT_TRUE(logs.take({1, Stream::Errors}, "one\n"));
  EXPECT_EQ(text(folder / "run/0/stdout.log"), "zero\n");
  EXPECT_EQ(text(folder / "run/0/stderr.log"), "");
  EXPECT_EQ(text(folder / "run/1/stderr.log"), "one\n");
  EXPECT_TRUE(warnings.empty());
}

TEST(RankLogs, PrintWhatCannotBeWritten_AndSayItOnce) {
  const ScratchFolder folder;
  std::vector<std::string> warnings;
  RankLogs logs({.folder = folder / "run", .rotation = {}, .printed = {}},
                [&](const std::string& why) { warnings.push_back(why); });
  for (const int rank : {0, 1}) {
    std::filesystem::create_directories(folder / fmt::format("run/{}", rank));
    std::filesystem::create_symlink("/dev/full", folder / fmt::format("run/{}/stdout.log", rank));
    logs.open(rank);
  }
  for (const int rank : {0, 1, 0}) EXPECT_TRUE(logs.take({rank, Stream::Output}, "a line\n")) << rank;
  EXPECT_FALSE(logs.take({0, Stream::Errors}, "a line\n")) << "this file has room";
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_THAT(warnings[0], HasSubstr("run/0/stdout.log: No space left on device; what ranks print there is printed"));
}

TEST(RankLogs, NameTheFolderThatCannotBeMade) {
  const ScratchFolder folder;
  std::ofstream(folder / "file") << "x";
  RankLogs logs({.folder = folder / "file/run", .rotation = {}, .printed = {}}, {});
  try {
    logs.open(0);
    FAIL() << "it must not open";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::InvalidArgument);
    EXPECT_THAT(e.what(), HasSubstr("--log-dir: cannot make " + (folder / "file")));
    EXPECT_THAT(e.what(), HasSubstr("expected a folder that can be written"));
  }
}

}  // namespace
}  // namespace sinew::run
