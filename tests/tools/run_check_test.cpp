// sinew-run --check examines hosts before it starts a job there.
#include <signal.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/core/net/stream_socket.hpp>
#include <sinew/tools/run/check/host_verdicts.hpp>
#include <support/scratch_folder.hpp>

#include "fake_rsh.hpp"
#include "run_job.hpp"

namespace sinew::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr const char* kReport = R"({"ok": false, "hosts": ["n0", "n1"], "first_ranks": [0, 4], "findings": [
  {"severity": "fails", "what": "memory", "found": "1 GiB left", "cure": "fewer ranks", "hosts": ["n1"]},
  {"severity": "fails", "what": "variables", "found": "differ", "cure": "set them alike", "hosts": []},
  {"severity": "warns", "what": "cores", "found": "a quota", "cure": "lift it", "hosts": ["n0", "n1"]},
  {"severity": "ok", "what": "clock", "found": "alike", "cure": "", "hosts": []}]})";

TEST(HostVerdicts, SayOfEachHostWhatFailsAndWarns) {
  const run::JobVerdict verdict = run::read_verdicts(kReport);
  ASSERT_EQ(verdict.hosts.size(), 2u);
  EXPECT_THAT(verdict.hosts[0].faults, IsEmpty());
  EXPECT_THAT(verdict.hosts[0].warnings, ElementsAre("cores"));
  EXPECT_EQ(verdict.hosts[1].first_rank, 4);
  EXPECT_THAT(verdict.hosts[1].faults, ElementsAre("memory: 1 GiB left; cure: fewer ranks"));
  EXPECT_THAT(verdict.faults, ElementsAre("variables: differ; cure: set them alike"));
}

TEST(HostVerdicts, RefuseWhatIsNoReport) {
  const std::string whole = kReport;
  for (const std::string& wrong :
       {std::string(), std::string("{}"), whole.substr(0, whole.size() / 2), std::string("[1]"),
        std::string(R"({"hosts": ["a"], "first_ranks": [], "findings": []})")}) {
    EXPECT_THROW(run::read_verdicts(wrong), Error) << wrong;
  }
}

/// Host b may listen at a port only that somebody else has, and host c cannot be reached. All are one machine, which is
/// examined as the host that is named first.
const FakeRsh& hosts() {
  static const Listener taken = listen_everywhere(0, std::nullopt);
  static const FakeRsh rsh(
      fmt::format("[ $1 = b ] && export SINEW_PORTS={0}-{0}\n"
                  "[ $1 = c ] && {{ echo 'c: no route to host' >&2; exit 255; }}\n",
                  taken.address.port()));
  return rsh;
}

Outcome checked_run(Strings arguments, Strings variables = {}) {
  arguments.insert(arguments.begin(), "--check");
  variables.push_back(hosts().variable());
  return sinew_run(std::move(arguments), variables);
}

TEST(SinewRunCheck, StartsTheJob_WhereAllIsWell) {
  const ScratchFolder folder;
  const Outcome here = checked_run({"-n", "2", "sh", "-c", "echo $WORLD_SIZE"}, {"SINEW_TRACE=" + (folder / "trace")});
  EXPECT_EQ(here.exit_code, 0) << here.err;
  EXPECT_EQ(lines(here.out).size(), 2u);
  EXPECT_THAT(here.err, AllOf(HasSubstr("sinew-run: check: host "), HasSubstr(": ok")));
  EXPECT_FALSE(std::filesystem::exists(folder / "trace")) << "this folder is the job's";
  const Outcome there = checked_run({"--hosts", "a:1,d:2", "sh", "-c", "echo $WORLD_SIZE"});
  EXPECT_EQ(there.exit_code, 0) << there.err;
  EXPECT_THAT(there.out, HasSubstr("[2] 3\n"));
  EXPECT_THAT(there.err, AllOf(HasSubstr("check: host a: ok"), HasSubstr("check: host d: ok, the same machine")));
}

TEST(SinewRunCheck, LeavesBadHostsOut_WhereTheOthersSuffice) {
  const std::vector<std::pair<Strings, std::string>> cases = {
      {{"-n", "2"}, "[1] 2\n"},
      {{"--nodes", "2"}, "[1] 2\n"},
      {{"--nodes", "1:1"}, "[0] 1\n"},
  };
  for (const auto& [slack, printed] : cases) {
    Strings arguments = slack;
    for (const char* a : {"--hosts", "b:1,a:1,c:1,d:1", "sh", "-c", "echo $WORLD_SIZE"}) arguments.emplace_back(a);
    const Outcome o = checked_run(arguments);
    EXPECT_EQ(o.exit_code, 0) << o.err;
    EXPECT_THAT(o.out, HasSubstr(printed));
    EXPECT_EQ(lines(o.out).size(), static_cast<std::size_t>(printed[4] - '0'));
    EXPECT_THAT(o.err, AllOf(HasSubstr("check: host b: link: "), HasSubstr("; cure: "),
                             HasSubstr("check: host c: the connection to its sinew-run ended with exit code 255; cure: "
                                       "make `"),
                             HasSubstr(" c true` work without a password"), HasSubstr("check: host a: ok"),
                             HasSubstr("check: host d: ok")));
  }
}

TEST(SinewRunCheck, EndsTheStart_NamingHostAndCure_WhereNoneCanBeLeftOut) {
  for (const Strings& need : {Strings{}, Strings{"-n", "2"}, Strings{"--nodes", "2"}}) {
    Strings arguments = need;
    for (const char* a : {"--hosts", "b:1,a:1", "echo", "started"}) arguments.emplace_back(a);
    const Outcome o = checked_run(arguments);
    EXPECT_EQ(o.exit_code, 2);
    EXPECT_EQ(o.out, "");
    EXPECT_THAT(lines(o.err).back(),
                AllOf(HasSubstr("what --check leaves"), HasSubstr("; host b: link: "), HasSubstr("; cure: ")));
  }
  const Outcome lost = checked_run({"--hosts", "a:1,c:1", "echo", "started"});
  EXPECT_EQ(lost.exit_code, 2);
  EXPECT_THAT(lines(lost.err).back(),
              HasSubstr("the job needs 2 hosts or more, and what --check leaves has only 1; host c: "));
}

TEST(SinewRunCheck, SaysSo_WhenTheJobWouldFailOnAllHosts) {
  const Outcome o = checked_run({"-n", "2", "echo", "started"}, {"SINEW_TUNE=all_reduce:0-:ring@nonsense"});
  EXPECT_EQ(o.exit_code, 1);
  EXPECT_EQ(o.out, "");
  EXPECT_THAT(o.err, AllOf(HasSubstr("--check: a job would fail: world: "), HasSubstr("; cure: ")));
}

TEST(SinewRunCheck, EndsByASignal) {
  const ScratchFolder folder;
  const FakeRsh slow(fmt::format("echo x >> {}; sleep 1000", folder / "asked"));
  Running job({"--check", "--hosts", "a:1,b:1", "echo", "started"}, {slow.variable()});
  wait_for_lines(folder / "asked", 2);
  ::kill(job.pid(), SIGTERM);
  EXPECT_EQ(job.wait(), 128 + SIGTERM);
}

TEST(SinewRunNodes, TakeAsManyHostsAsAsked) {
  const FakeRsh rsh;
  const Outcome most =
      sinew_run({"--nodes", "1:2", "--hosts", "a:1,b:2,c:4", "sh", "-c", "echo $WORLD_SIZE"}, {rsh.variable()});
  EXPECT_EQ(lines(most.out).size(), 3u) << most.err;
  const Outcome few = sinew_run({"--nnodes", "3", "--hosts", "a:1,b:2", "true"}, {rsh.variable()});
  EXPECT_EQ(few.exit_code, 2);
  EXPECT_THAT(few.err, HasSubstr("the job needs 3 hosts or more, and --hosts has only 2"));
  for (const char* wrong : {"0", "x", "2:1", "1:", ":2", "-1"}) {
    const Outcome o = sinew_run({fmt::format("--nodes={}", wrong), "--hosts", "a:1", "true"}, {rsh.variable()});
    EXPECT_EQ(o.exit_code, 2);
    EXPECT_THAT(o.err, HasSubstr(fmt::format("--nodes {}: expected a number of hosts", wrong)));
  }
}

}  // namespace
}  // namespace sinew::test
