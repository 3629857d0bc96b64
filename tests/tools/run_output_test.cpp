// What ranks print, where whoever reads it takes its time or has stopped.
#include <fcntl.h>
#include <signal.h>
#include <termios.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/core/file_descriptor.hpp>
#include <support/scratch_folder.hpp>

#include "fake_rsh.hpp"
#include "run_job.hpp"

namespace sinew::test {
namespace {

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

}  // namespace
}  // namespace sinew::test
