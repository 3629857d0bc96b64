#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <support/run_program.hpp>

namespace sinew::test {
namespace {

using testing::HasSubstr;
using Strings = std::vector<std::string>;

/// A system call that a sandbox may refuse, and what the log says then; empty: sinew does not make the call.
struct Refusal {
  const char* call;
  const char* said;
};

constexpr Refusal kSurvived[] = {
    {"sched_getaffinity", ""},
    {"membarrier", "membarrier is not available on every rank of this host"},
    {"pidfd_open", "pidfd_open is refused"},
    {"pidfd_getfd", ""},
    {"process_vm_readv", "ordinary memory is staged: rank "},
    {"userfaultfd", ""},
    {"io_uring", ""},
};

constexpr int kNoFilter = 77;

/// Two ranks over shared memory with checked data. `command`: what stands before sinew-run; `rank`: before each rank.
Outcome checked_job(const Strings& command, const Strings& rank, Strings environment = {}) {
  Strings all{"timeout", "60"};  // exit code 124: it hung
  all.insert(all.end(), command.begin(), command.end());
  all.insert(all.end(), {SINEW_RUN, "-n", "2"});
  all.insert(all.end(), rank.begin(), rank.end());
  all.insert(all.end(), {SINEW_CONFORMANCE, "--transport", "shm", "--largest", "16KiB"});
  environment.insert(environment.end(), {"SINEW_LOG=debug", "SINEW_TIMEOUT=30s"});
  return run_program(all, environment);
}

class RefusedCall : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(With, RefusedCall, testing::Values("EPERM", "ENOSYS"),
                         [](const auto& error) { return std::string(error.param); });

TEST_P(RefusedCall, IsSurvived_WhereThereIsAnotherWay) {
  for (const Refusal& refusal : kSurvived) {
    const Outcome o = checked_job({REFUSING, GetParam(), refusal.call}, {});
    if (o.exit_code == kNoFilter) GTEST_SKIP() << o.out;
    EXPECT_EQ(o.exit_code, 0) << refusal.call << "\n" << o.err;
    EXPECT_THAT(o.err, HasSubstr(refusal.said)) << refusal.call;
  }
}

TEST_P(RefusedCall, IsSurvived_WhereOneRankAloneIsRefused) {
  for (const Refusal& refusal : kSurvived) {
    const Outcome o = checked_job({}, {REFUSING, GetParam(), refusal.call}, {"REFUSED_RANK=1"});
    if (o.exit_code == kNoFilter) GTEST_SKIP() << o.out;
    EXPECT_EQ(o.exit_code, 0) << refusal.call << "\n" << o.err;
    EXPECT_THAT(o.err, HasSubstr(refusal.said)) << refusal.call;
  }
}

/// Peers read a rank's memory through it.
TEST_P(RefusedCall, EndsTheJobWithItsName_WhereItIsMemfdCreate) {
  for (const bool of_one : {false, true}) {
    const Strings refusing{REFUSING, GetParam(), "memfd_create"};
    const Outcome o = of_one ? checked_job({}, refusing, {"REFUSED_RANK=1"}) : checked_job(refusing, {}, {});
    if (o.exit_code == kNoFilter) GTEST_SKIP() << o.out;
    EXPECT_NE(o.exit_code, 0);
    EXPECT_NE(o.exit_code, 124) << "it hung";
    EXPECT_LT(o.exit_code, 128) << "a signal ended it";
    EXPECT_THAT(o.err, HasSubstr("memfd_create for the memory that peers on this host read"));
    EXPECT_THAT(o.err, HasSubstr(of_one ? "rank 1 on " : "rank 0 on "));
  }
}

/// The plan says what is lost, whoever refuses.
TEST_P(RefusedCall, StandsInThePlan_WhereOrdinaryMemoryIsNotReadable) {
  for (const bool of_one : {false, true}) {
    Strings all{"timeout", "60"};
    const Strings refusing{REFUSING, GetParam(), "process_vm_readv"};
    if (!of_one) all.insert(all.end(), refusing.begin(), refusing.end());
    all.insert(all.end(), {SINEW_RUN, "--no-prefix", "-n", "2"});
    if (of_one) all.insert(all.end(), refusing.begin(), refusing.end());
    all.insert(all.end(), {SINEW_INFO, "plan", "all_gather", "8MiB"});
    Strings environment{"SINEW_TRANSPORTS=shm"};
    if (of_one) environment.emplace_back("REFUSED_RANK=1");
    const Outcome o = run_program(all, environment);
    if (o.exit_code == kNoFilter) GTEST_SKIP() << o.out;
    EXPECT_EQ(o.exit_code, 0) << o.err;
    EXPECT_THAT(o.out, HasSubstr("staged, as ordinary memory cannot be read in place: rank "));
    EXPECT_THAT(o.out, HasSubstr("process_vm_readv from process "));
  }
}

TEST(AllowedCalls, SayNothingOfRefusals) {
  const Outcome o = checked_job({}, {});
  EXPECT_EQ(o.exit_code, 0) << o.err;
  for (const Refusal& refusal : kSurvived) {
    if (*refusal.said != '\0') {
      EXPECT_THAT(o.err, testing::Not(HasSubstr(refusal.said)));
    }
  }
}

}  // namespace
}  // namespace sinew::test
