// What ranks print, where whoever reads it takes its time or has stopped.
#include <fcntl.h>
#include <signal.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/core/system/file_descriptor.hpp>
#include <support/scratch_folder.hpp>

#include "fake_rsh.hpp"
#include "run_job.hpp"

namespace sinew::test {
namespace {

using testing::HasSubstr;

/// Where output goes, and the other side, which does not read.
struct Unread {
  FileDescriptor reader;
  FileDescriptor output;
};

Unread unread_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno("pipe");
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

/// As Ctrl-S leaves it.
Unread stopped_terminal() {
  FileDescriptor master(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!master || ::grantpt(master.get()) != 0 || ::unlockpt(master.get()) != 0) throw_errno("posix_openpt");
  FileDescriptor terminal(::open(::ptsname(master.get()), O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!terminal || ::tcflow(terminal.get(), TCOOFF) != 0) throw_errno("a terminal");
  return {std::move(master), std::move(terminal)};
}

/// Ranks that print without end, until they hear SIGTERM. Once enough has been printed they say so in `folder`/ready.
void expect_to_hear_signals(const Unread& unread, const ScratchFolder& folder, Strings arguments,
                            const Strings& environment = {}) {
  const std::string script = fmt::format("trap 'echo term >> {0}; exit 0' TERM; yes & sleep 0.2; echo x >> {1}; wait",
                                         folder / "got", folder / "ready");
  arguments.insert(arguments.end(), {"sh", "-c", script});
  Running job(arguments, environment, unread.output.get());
  wait_for_lines(folder / "ready", 2);
  ::kill(job.pid(), SIGTERM);
  EXPECT_EQ(wait_for_lines(folder / "got", 2), (Strings{"term", "term"}));
  EXPECT_EQ(job.wait(), 1) << "what they printed is lost";
}

TEST(SinewRunOutput, SignalsAreHeard_WhenNobodyReadsIt) {
  const ScratchFolder one, other;
  expect_to_hear_signals(unread_pipe(), one, {"-n", "2"});
  expect_to_hear_signals(stopped_terminal(), other, {"-n", "2"});
}

TEST(SinewRunOutput, SignalsAreHeardOnOtherHosts_WhenNobodyReadsIt) {
  const ScratchFolder folder;
  const FakeRsh rsh(fmt::format("[ $1 = a ] || until [ -s {} ]; do sleep 0.01; done", folder / "ready"));
  expect_to_hear_signals(unread_pipe(), folder, {"--hosts", "a:1,b:1"}, {rsh.variable()});
}

TEST(SinewRunOutput, ItsReaderGetsAllOfIt_ThoughRanksHaveEnded) {
  const ScratchFolder folder;
  const std::string ended = folder / "ended";
  const Outcome o = run_program(
      {"sh", "-c",
       fmt::format("{} -n 1 sh -c 'seq 80000; echo x > {}' | {{ until [ -s {} ]; do sleep 0.01; done; wc -l; }}",
                   SINEW_RUN, ended, ended)});
  EXPECT_EQ(o.out, "80000\n") << o.err;
}

TEST(SinewRunOutput, EndsTheRanksAndSaysWhy_WhenItsReaderHasGone) {
  const Outcome o = run_program({"sh", "-c", fmt::format("{} -n 2 yes | head -n 1", SINEW_RUN)});
  EXPECT_THAT(o.out, HasSubstr("y\n"));
  EXPECT_EQ(o.err, "sinew-run: nobody reads the output any more: ending the 2 ranks\n");
}

TEST(SinewRunOutput, RanksWait_ForAReaderThatIsSlower) {
  const ScratchFolder folder;
  const std::string peak = folder / "peak";
  const FakeRsh rsh;
  for (const std::string hosts : {"localhost:2", "a:1,b:1"}) {
    const std::string rank = fmt::format("seq -f %0999.0f 30000; grep VmHWM /proc/$PPID/status >> {}", peak);
    const std::string reader =
        "sleep 0.5; awk '{ if ($2 != ++seen[$1]) wrong++ } END { print seen[\"[0]\"], seen[\"[1]\"], wrong + 0 }'";
    const Outcome o =
        run_program({"sh", "-c", fmt::format("{} --hosts {} sh -c '{}' | {{ {}; }}", SINEW_RUN, hosts, rank, reader)},
                    {rsh.variable()});
    EXPECT_EQ(o.out, "30000 30000 0\n") << o.err;
  }
  const Strings peaks = lines_of(peak);
  EXPECT_EQ(peaks.size(), 4u);
  for (const std::string& kib : peaks) {
    EXPECT_LT(std::stol(kib.substr(kib.find_first_of("0123456789"))), 24 * 1024) << "of 60 MB printed";
  }
}

/// Bytes of every kind, which no two places have in the same order; the last is not a newline.
std::string random_bytes(std::size_t count) {
  std::mt19937_64 random(count);
  std::string bytes(count, '\0');
  for (std::size_t at = 0; at < count; at += sizeof(std::uint64_t)) {
    const std::uint64_t next = random();
    std::memcpy(bytes.data() + at, &next, std::min(sizeof next, count - at));
  }
  bytes.back() = 'x';
  return bytes;
}

void write_file(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

/// A rank prints a file, on standard output (1) or standard error (2); what arrives is compared.
void expect_unchanged(const std::string& file, const std::string& host, int stream) {
  const ScratchFolder folder;
  const FakeRsh rsh;
  const Outcome o = run_program({"sh", "-c",
                                 fmt::format("{} --no-prefix --hosts {} sh -c 'cat {} >&{}' {}>{}", SINEW_RUN, host,
                                             file, stream, stream, folder / "copy")},
                                {rsh.variable()});
  EXPECT_EQ(o.exit_code, 0) << o.err;
  const Outcome compared = run_program({"cmp", file, folder / "copy"});
  EXPECT_EQ(compared.exit_code, 0) << host << ", stream " << stream << ": " << compared.out << compared.err;
}

TEST(SinewRunOutput, PassesBytesUnchanged_WithoutPrefixes) {
  const ScratchFolder folder;
  write_file(folder / "much", random_bytes(64 << 20));
  write_file(folder / "random", random_bytes(3 << 20));
  write_file(folder / "one_line", std::string(3 << 20, '\0'));
  write_file(folder / "few", "a\nb");
  for (const std::string host : {"localhost", "a"}) {
    expect_unchanged(folder / "much", host, STDOUT_FILENO);
    for (const std::string name : {"random", "one_line", "few"}) {
      for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) expect_unchanged(folder / name, host, stream);
    }
  }
}

TEST(SinewRunOutput, KeepsNoLongLineInMemory) {
  const ScratchFolder folder;
  const FakeRsh rsh;
  for (const std::string hosts : {"localhost:2", "a:2"}) {
    const Outcome o = sinew_run(
        {"--hosts", hosts, "sh", "-c",
         fmt::format("head -c 60000000 /dev/zero; echo; grep VmHWM /proc/$PPID/status >> {}", folder / "peak")},
        {rsh.variable()});
    EXPECT_EQ(std::ranges::count(o.out, '\n'), 2) << o.err;
    EXPECT_EQ(o.out.size(), 2 * (60000000 + std::string_view("[0] \n").size()));
  }
  const Strings peaks = lines_of(folder / "peak");
  EXPECT_EQ(peaks.size(), 4u);
  for (const std::string& kib : peaks) {
    EXPECT_LT(std::stol(kib.substr(kib.find_first_of("0123456789"))), 24 * 1024) << "of two lines of 60 MB";
  }
}

/// Each rank prints a long line, a short one and a tail, in a letter of its own, while the others do.
const std::string kLongLines =
    "letter=$(echo abcd | cut -c $((RANK + 1))); for bytes in 5000000 3 2000000; do head -c $bytes /dev/zero | "
    "tr \\\\0 $letter; echo; done; printf tail";

TEST(SinewRunOutput, KeepsLinesOfAnyLengthWhole) {
  const FakeRsh rsh;
  for (const std::string hosts : {"localhost:4", "a:2,b:1,localhost:1", "a:4"}) {
    for (const bool prefixes : {true, false}) {
      Strings arguments = {"--hosts", hosts, "sh", "-c", kLongLines};
      if (!prefixes) arguments.insert(arguments.begin(), "--no-prefix");
      const Outcome o = sinew_run(arguments, {rsh.variable()});
      ASSERT_EQ(o.exit_code, 0) << o.err;
      std::map<std::string, int> found;
      for (const std::string& line : lines(o.out)) {
        const std::string text = prefixes && line.starts_with("[") ? line.substr(4) : line;
        ++found[text.size() < 100 ? text : fmt::format("{}{}", text[0], text.size())];
        if (text.find("tail") != std::string::npos) continue;
        EXPECT_EQ(text.find_first_not_of(text[0]), std::string::npos) << "parts of several lines";
      }
      std::map<std::string, int> expected;
      for (const char letter : {'a', 'b', 'c', 'd'}) {
        for (const std::string& text :
             {fmt::format("{}5000000", letter), std::string(3, letter), fmt::format("{}2000000", letter)}) {
          expected[text] = 1;
        }
      }
      if (prefixes) expected["tail"] = 4;
      if (!prefixes) expected["tailtailtailtail"] = 1;
      EXPECT_EQ(found, expected) << hosts;
      EXPECT_TRUE(o.out.ends_with("tail")) << "and no newline behind it";
    }
  }
}

TEST(SinewRunOutput, CutsALine_WhichKeepsOthersWaiting) {
  const ScratchFolder folder;
  const std::string script = fmt::format(
      "if [ $RANK = 0 ]; then head -c 2000000 /dev/zero | tr '\\0' x; echo >> {0}; until [ -s {1} ]; do sleep 0.1; "
      "done; "
      "echo y; else until [ -s {0} ]; do sleep 0.1; done; echo waits; fi",
      folder / "long", folder / "seen");
  const Outcome o =
      run_program({"sh", "-c",
                   fmt::format("{} -n 2 sh -c \"$0\" | while read -r line; do echo \"$line\" | cut -c 1-9; "
                               "case \"$line\" in *waits*) echo >> {};; esac; done",
                               SINEW_RUN, folder / "seen"),
                   script});
  EXPECT_EQ(o.out, "[0] xxxxx\n[1] waits\n[0] y\n") << o.err;
}

TEST(SinewRunOutput, KeepsLinesWhole_WhereOutputAndErrorsGoToOnePipe) {
  const std::string script =
      "head -c 3000000 /dev/zero | tr '\\0' x & for i in 1 2 3 4 5 6 7 8 9; do echo e >&2; done; wait; echo";
  const Outcome o = run_program({"sh", "-c", fmt::format("{} -n 2 sh -c \"$0\" 2>&1", SINEW_RUN), script});
  std::map<std::string, int> found;
  for (const std::string& line : lines(o.out)) ++found[line.size() < 100 ? line : fmt::format("{}", line.size())];
  EXPECT_EQ(found, (std::map<std::string, int>{{"[0] e", 9}, {"[1] e", 9}, {"3000004", 2}}));
}

TEST(SinewRunOutput, BeginsOnALineOfItsOwn_AfterARestart) {
  const ScratchFolder folder;
  const std::string script =
      fmt::format("echo x >> {0}; printf tail; printf error >&2; [ $(wc -l < {0}) -gt 1 ]", folder / "starts");
  const Outcome o = run_script(1, script, {"--restarts", "1"});
  EXPECT_EQ(o.out, "[0] tail\n[0] tail");
  EXPECT_THAT(o.err, HasSubstr("[0] error\nsinew-run: rank 0 ended with exit code 1\nsinew-run: the job failed: "));
  EXPECT_THAT(o.err, HasSubstr("\nsinew-run: starting all 1 ranks again in 1 s (1 of 1)\n[0] error"));
}

}  // namespace
}  // namespace sinew::test
