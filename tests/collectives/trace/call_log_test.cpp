#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/collectives/trace/rank_log.hpp>
#include <support/log_guard.hpp>
#include <support/scratch_folder.hpp>

#include "file_limit.hpp"
#include "written_log.hpp"

namespace sinew {
namespace {

using test::FileLimit;
using test::kMs;
using test::ScratchFolder;
using test::sum_of;
using test::WrittenLog;
using testing::HasSubstr;

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

std::string refusal(const std::string& path) {
  try {
    const RankLog log(path);
  } catch (const Error& e) {
    return e.what();
  }
  return "no refusal";
}

std::uint64_t count(const RankLog& log) {
  std::uint64_t calls = 0;
  for (auto cursor = log.calls(); cursor.next();) ++calls;
  return calls;
}

TEST(CallLog, IsReadAsItWasWritten) {
  const ScratchFolder folder;
  WrittenLog log(folder / ".", {.rank = 2, .ranks = 3, .generation = 1, .job = 77, .host = "box", .clock = "boot x"});
  const std::uint32_t ring = log.plan(12e-6, 16, "ring", "shm");
  log.call(1, 5 * kMs, 7 * kMs, ring);
  log.call(1, 8 * kMs, 9 * kMs, 0, Code::PeerLost, fingerprint_of({.collective = Collective::Send, .count = 9}), 1);
  log.enter(2, 10 * kMs);
  const RankLog read(log.path());
  EXPECT_EQ(read.about().rank, 2);
  EXPECT_EQ(read.about().ranks, 3);
  EXPECT_EQ(read.about().generation, 1U);
  EXPECT_EQ(read.about().job, 77U);
  EXPECT_EQ(read.about().process, ::getpid());
  EXPECT_EQ(read.about().host, "box");
  EXPECT_FALSE(read.about().closed);
  EXPECT_EQ(read.about().calls, 3U);
  EXPECT_EQ(read.about().unfinished, 1U);
  EXPECT_EQ(read.about().damaged, 0U);

  auto calls = read.calls();
  auto call = calls.next();
  ASSERT_TRUE(call);
  EXPECT_EQ(call->fingerprint, sum_of(4));
  EXPECT_EQ(call->extent, 4U);
  EXPECT_EQ(call->entered, 5 * kMs);
  EXPECT_EQ(call->completed, 7 * kMs);
  EXPECT_EQ(read.site(call->site), "train.cpp:12");
  ASSERT_NE(read.plan(call->plan), nullptr);
  EXPECT_EQ(read.plan(call->plan)->algorithm, "ring");
  EXPECT_EQ(read.plan(call->plan)->transport, "shm");
  EXPECT_EQ(read.plan(call->plan)->predicted, 12e-6);
  ASSERT_NE(read.communicator(call->communicator), nullptr);
  EXPECT_THAT(read.communicator(call->communicator)->world_ranks, testing::ElementsAre(0, 1, 2));
  call = calls.next();
  ASSERT_TRUE(call);
  EXPECT_EQ(call->outcome, Code::PeerLost);
  EXPECT_EQ(call->peer, 1);
  call = calls.next();
  ASSERT_TRUE(call);
  EXPECT_FALSE(call->completed);
  EXPECT_FALSE(calls.next());
}

TEST(CallLog, KeepsEveryCall_OverMoreThanOnePiece_AndNoRoomThatItDoesNotNeed) {
  const ScratchFolder folder;
  constexpr std::uint32_t kCalls = 20'000;
  WrittenLog log(folder / ".", {});
  for (std::uint32_t i = 1; i <= kCalls; ++i) log.call(i, i * kMs, (i + 1) * kMs);
  EXPECT_EQ(count(RankLog(log.path())), kCalls) << "while it is written";
  log.close();
  const RankLog read(log.path());
  EXPECT_TRUE(read.about().closed);
  EXPECT_EQ(count(read), kCalls);
  EXPECT_EQ(std::filesystem::file_size(log.path()), sizeof(LogHeader) + (kCalls + 2) * sizeof(CallCell));
}

TEST(CallLog, TakesDefinitionsOfAnyLength) {
  const ScratchFolder folder;
  CallLog log(folder / "sinew-0-rank-4095.calls", {.rank = 4095, .ranks = 4096});
  std::vector<std::int32_t> meaning(4 + 4096);
  meaning[2] = 6;     // id
  meaning[3] = 4095;  // rank
  for (int r = 0; r < 4096; ++r) meaning[4 + static_cast<std::size_t>(r)] = r;
  const std::uint32_t number = log.define(CellKind::Communicator, std::as_bytes(std::span(meaning)));
  const RankLog read(folder / "sinew-0-rank-4095.calls");
  ASSERT_NE(read.communicator(number), nullptr);
  EXPECT_EQ(read.communicator(number)->id, 6U);
  EXPECT_EQ(read.communicator(number)->world_ranks.size(), 4096U);
  EXPECT_EQ(read.about().damaged, 0U);
}

TEST(CallLog, IsOneUsersFile_InThePlaceOfALink) {
  const ScratchFolder folder;
  const std::string target = folder / "target", link = folder / "sinew-0-rank-0.calls";
  write(target, "untouched");
  std::filesystem::create_symlink(target, link);
  const WrittenLog log(folder / ".", {});
  EXPECT_EQ(bytes_of(target), "untouched");
  struct stat status {};
  ASSERT_EQ(::lstat(link.c_str(), &status), 0);
  EXPECT_TRUE(S_ISREG(status.st_mode));
  EXPECT_EQ(status.st_mode & 0777, 0600U);
}

TEST(CallLog, OutlivesARankThatIsKilled) {
  const ScratchFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    WrittenLog log(folder / ".", {});
    for (std::uint32_t i = 1; i <= 10'000; ++i) log.call(i, i * kMs, (i + 1) * kMs);
    log.enter(10'001, 10'001 * kMs);
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  const RankLog read(folder / "sinew-0-rank-0.calls");
  EXPECT_EQ(read.about().calls, 10'001U);
  EXPECT_EQ(read.about().unfinished, 1U);
  EXPECT_FALSE(read.about().closed);
  EXPECT_EQ(read.about().damaged, 0U);
}

TEST(CallLog, SaysOnceThatItIsCut_WhereThereIsNoMoreRoom) {
  const ScratchFolder folder;
  WrittenLog log(folder / ".", {});
  test::ExpectLog warning(log::Level::Warning, "are not logged; the job goes on");
  {
    const FileLimit limit(300 << 10);
    for (std::uint32_t i = 1; i <= 10'000; ++i) log.call(i, i * kMs, (i + 1) * kMs);
  }
  EXPECT_EQ(warning.lines().size(), 1U);
  EXPECT_THAT(warning.lines().front(), HasSubstr("File too large"));
  const RankLog read(log.path());
  EXPECT_EQ(read.about().truncated, EFBIG);
  EXPECT_EQ(read.about().calls + read.about().lost, 10'000U);
  EXPECT_EQ(read.about().calls, (256U << 10) / sizeof(CallCell) - sizeof(LogHeader) / sizeof(CallCell) - 2);
}

TEST(CallLog, IsRefused_WhereEvenItsBeginningHasNoRoom) {
  const ScratchFolder folder;
  const FileLimit limit(4096);
  EXPECT_THROW(CallLog(folder / "sinew-0-rank-0.calls", {}), Error);
}

TEST(RankLog, SaysWhatItExpected_WhereThereIsNone) {
  const ScratchFolder folder;
  EXPECT_THAT(refusal(folder / "absent"), HasSubstr("No such file or directory; expected a log of calls"));
  EXPECT_THAT(refusal(folder / "."), HasSubstr("is no file"));
  write(folder / "empty", "");
  EXPECT_THAT(refusal(folder / "empty"), HasSubstr("is shorter than the header of one"));
  write(folder / "text", std::string(4096, 'x'));
  EXPECT_THAT(refusal(folder / "text"), HasSubstr("does not begin like one"));
}

TEST(RankLog, ReadsWhatIsThere_WhereverTheFileEnds) {
  const ScratchFolder folder;
  WrittenLog log(folder / ".", {.rank = 0, .ranks = 64});
  for (std::uint32_t i = 1; i <= 20; ++i) log.call(i, i * kMs, (i + 1) * kMs);
  log.close();
  const std::string whole = bytes_of(log.path());
  const std::string cut = folder / "cut";
  for (std::size_t bytes = sizeof(LogHeader); bytes <= whole.size(); bytes += 13) {
    write(cut, whole.substr(0, bytes));
    const RankLog read(cut);
    EXPECT_LE(read.about().calls, (bytes - sizeof(LogHeader)) / sizeof(CallCell));
  }
}

TEST(RankLog, CountsWhatIsDamaged_AndReadsTheRest) {
  const ScratchFolder folder;
  WrittenLog log(folder / ".", {.rank = 0, .ranks = 2});
  for (std::uint32_t i = 1; i <= 20; ++i) log.call(i, i * kMs, (i + 1) * kMs);
  log.close();
  std::string bytes = bytes_of(log.path());
  const auto cell = [&](std::size_t i) { return sizeof(LogHeader) + (2 + i) * sizeof(CallCell); };
  bytes.replace(cell(3), sizeof(CallCell), sizeof(CallCell), '\xff');        // no such kind
  bytes[cell(5) + offsetof(CallCell, communicator)] = 99;                    // not defined
  bytes[cell(7) + offsetof(CallCell, fingerprint)] = 31;                     // no such collective
  bytes.replace(cell(9), 2 * sizeof(CallCell), 2 * sizeof(CallCell), '\0');  // a hole
  write(log.path(), bytes);
  const RankLog read(log.path());
  EXPECT_EQ(read.about().calls, 15U);
  EXPECT_EQ(read.about().damaged, 5U);
}

TEST(RankLog, BearsAnyBytes) {
  const ScratchFolder folder;
  WrittenLog log(folder / ".", {.rank = 0, .ranks = 2});
  const std::uint32_t plan = log.plan(1e-6, 16, "ring", "shm");
  for (std::uint32_t i = 1; i <= 20; ++i) log.call(i, i * kMs, (i + 1) * kMs, plan);
  log.close();
  const std::string whole = bytes_of(log.path());
  std::mt19937 random(7);
  const std::string other = folder / "other";
  int read = 0;
  for (int round = 0; round < 500; ++round) {
    std::string bytes = whole;
    for (int i = 0; i < 8; ++i) bytes[random() % bytes.size()] = static_cast<char>(random());
    write(other, bytes);
    read += refusal(other) == "no refusal" ? 1 : 0;
  }
  EXPECT_GT(read, 100) << "most damage is in cells";
}

}  // namespace
}  // namespace sinew
