#include <unistd.h>

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <support/run_program.hpp>
#include <support/scratch_folder.hpp>

// sinew-info hang over jobs that run and jobs that have ended.
namespace sinew::test {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

Outcome shell(const std::string& command) { return run_program({"bash", "-c", command}); }

/// A job of three ranks that calls and calls, of which number `victim` gets a signal; then `look`, $launcher being its
/// process.
std::string while_running(const std::string& environment, const std::string& signal, const std::string& look,
                          const std::string& launcher = "") {
  return environment + " SINEW_TIMEOUT=60s " SINEW_RUN " " + launcher +
         " -n 3 " SINEW_BENCH
         " all_reduce -b 8 -e 8 -n 200000000 >/dev/null 2>&1 &\n"
         "launcher=$!\n"
         "until [ \"$(pgrep -c -P $launcher)\" -ge 3 ]; do kill -0 $launcher || exit 99; sleep 0.1; done; sleep 2\n"
         "victim=$(pgrep -P $launcher | sed -n 2p)\n"
         "kill -" +
         signal + " $victim; sleep 1.5\n" + look +
         "\nresult=$?\n"
         "kill -CONT $victim 2>/dev/null; kill $launcher 2>/dev/null; wait $launcher 2>/dev/null; exit $result\n";
}

TEST(Hang, NamesARankThatIsStopped) {
  const Outcome o = shell(while_running("", "STOP", SINEW_INFO " hang --process $launcher"));
  EXPECT_EQ(o.exit_code, 1) << o.err;
  // Between batches of the measured call the benchmark gathers its times and has a barrier.
  EXPECT_THAT(o.out, AllOf(HasSubstr("stopped: "), HasSubstr("rank 2 "),
                           AnyOf(HasSubstr("all_reduce(f32, sum, count 2)"), HasSubstr("all_gather(f64, count 2)"))));
}

TEST(Hang, FindsNothing_WhereAllGoesOn) {
  const Outcome o = shell(while_running("", "CONT", SINEW_INFO " hang --json --process $launcher"));
  EXPECT_EQ(o.exit_code, 0) << o.out << o.err;
  EXPECT_THAT(o.out, HasSubstr("\"stuck\": []"));
}

TEST(Hang, JudgesRecordsOfAJobThatEnded) {
  const ScratchFolder folder;
  const std::string in = folder / ".";
  const Outcome killed = shell(while_running("SINEW_TRACE=" + in, "KILL", "true", "--on-failure continue"));
  EXPECT_EQ(killed.exit_code, 0) << killed.err;
  const Outcome o = run_program({SINEW_INFO, "hang", in});
  EXPECT_EQ(o.exit_code, 1) << o.out << o.err;
  EXPECT_THAT(o.out, AllOf(HasSubstr("dead: rank "), HasSubstr("generation 0: 3 ranks")));
}

TEST(Hang, SaysWhatItExpected) {
  const ScratchFolder folder;
  const Outcome none = run_program({SINEW_INFO, "hang", folder / "."});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, HasSubstr("has no records; expected sinew-GENERATION-rank-RANK.trace"));
  const Outcome absent = run_program({SINEW_INFO, "hang", folder / "nothing"});
  EXPECT_EQ(absent.exit_code, 2);
  EXPECT_THAT(absent.err, HasSubstr("No such file or directory"));
  const Outcome nobody = run_program({SINEW_INFO, "hang", "--process", std::to_string(::getpid())});
  EXPECT_EQ(nobody.exit_code, 2);
  EXPECT_THAT(nobody.err, HasSubstr("shows records: expected a running job of two processes or more"));
}

}  // namespace
}  // namespace sinew::test
