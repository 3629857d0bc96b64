// Ranks that meet through PMIx, by tests/fakes/fake_pmix.cpp.
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/base/random.hpp>
#include <sinew/core/base/wire.hpp>
#include <sinew/core/net/listening_port.hpp>
#include <sinew/core/net/secret.hpp>
#include <sinew/core/store/store_protocol.hpp>
#include <support/scratch_folder.hpp>

#include "probed_launch.hpp"

namespace sinew::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class Pmix : public testing::Test {
 protected:
  void SetUp() override {
    if (!SINEW_TEST_PMIX) GTEST_SKIP() << "this build has no PMIx";
  }

  /// The launcher sets this for a task. Its server says that each task has a host of its own.
  Strings task(int rank, int ranks, const Strings& more = {}) const {
    Strings all = {fmt::format("PMIX_RANK={}", rank),
                   "PMIX_NAMESPACE=fake",
                   "PMIX_PREFIX=" FAKES "/pmix",
                   "FAKE_PMIX_FOLDER=" + server / "",
                   "FAKE_PMIX_LOCAL_SIZE=1",
                   fmt::format("FAKE_PMIX_SIZE={}", ranks),
                   "SINEW_TIMEOUT=60s"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  /// The same, with RANK and its companions, where only PMIx can carry a secret.
  Strings numbered(int task_number, int rank, int ranks, const Strings& more = {}) const {
    Strings all = task(task_number, ranks,
                       {fmt::format("RANK={}", rank), fmt::format("WORLD_SIZE={}", ranks), "MASTER_ADDR=203.0.113.7",
                        "MASTER_PORT=29500", kNoMunge});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  /// Puts the record of an earlier program, whose store was at this port.
  void leave_record(std::uint16_t port) const {
    const Bytes record = WireWriter()
                             .text("another network")
                             .text("@sinew-earlier")
                             .text(fmt::format("127.0.0.1:{}", port))
                             .bytes(random_secret())
                             .value(random_id())
                             .take();
    std::ofstream(server / "0.sinew.0", std::ios::binary)
        .write(reinterpret_cast<const char*>(record.data()), static_cast<std::streamsize>(record.size()));
  }
  static std::string met(const std::vector<Outcome>& outcomes) {
    std::string out;
    for (const Outcome& o : outcomes) {
      EXPECT_EQ(o.exit_code, 0) << o.out << o.err;
      out += o.out;
    }
    return out;
  }

  const ScratchFolder server;
};

TEST_F(Pmix, BringsAllTasksTogether) {
  expect_all_met(met(probe_each({task(0, 3), task(1, 3), task(2, 3)}, {"2"})), 3, 2, "PMIx");
}

TEST_F(Pmix, LibraryOfTheLauncher_ComesBeforeTheSystems) {
  for (const char* folder : {"lib", "lib64", "lib/openmpi"}) {
    const ScratchFolder prefix;
    std::filesystem::create_directories(prefix / folder);
    std::filesystem::create_symlink(FAKES "/pmix/lib/libpmix.so.2", prefix / folder + "/libpmix.so.2");
    const Outcome o = run_program({EXCHANGE_PROBE}, task(0, 1, {"PMIX_PREFIX=" + prefix / ""}));
    EXPECT_THAT(o.out, HasSubstr("rank 0 of 1 kind PMIx")) << folder << o.err;
  }
}

TEST_F(Pmix, LibraryThatCannotBeLoaded_DoesNotHideTheSystems) {
  const ScratchFolder prefix;
  std::filesystem::create_directories(prefix / "lib");
  std::ofstream(prefix / "lib/libpmix.so.2") << "no library";
  // The fake is what the system has.
  const Outcome o =
      run_program({EXCHANGE_PROBE}, task(0, 1, {"PMIX_PREFIX=" + prefix / "", "LD_LIBRARY_PATH=" FAKES "/pmix/lib"}));
  EXPECT_THAT(o.out, HasSubstr("rank 0 of 1 kind PMIx")) << o.err;
}

TEST_F(Pmix, RecordOfAnEarlierProgram_IsAskedForAgain) {
  for (int program = 0; program < 2; ++program) {
    expect_all_met(met(probe_each({task(0, 2), task(1, 2)})), 2, 1, "PMIx");
  }
  leave_record(static_cast<std::uint16_t>(some_port()));  // nobody listens there
  expect_all_met(met(probe_each({task(0, 2), task(1, 2)})), 2, 1, "PMIx");
}

TEST_F(Pmix, RecordOfAnEarlierProgram_IsAskedForAgain_WhereAnotherJobHasItsPort) {
  const auto port = port_of_process({});
  const auto service =
      port->serve({.service = kStoreService, .instance = 1}, random_secret(), [](const AuthClaim&, const Socket&) {});
  leave_record(port->number());
  expect_all_met(met(probe_each({task(0, 2), task(1, 2)})), 2, 1, "PMIx");
}

TEST_F(Pmix, CarriesTheSecret_OfRanksThatSomebodyElseHasNumbered) {
  expect_all_met(met(probe_each({numbered(0, 0, 3), numbered(1, 1, 3), numbered(2, 2, 3)}, {"2"})), 3, 2, "RANK");
  // As srun --distribution=cyclic numbers its tasks.
  expect_all_met(met(probe_each({numbered(0, 0, 3), numbered(1, 2, 3), numbered(2, 1, 3)})), 3, 1, "RANK");
}

TEST_F(Pmix, CarriesNoSecret_WhereTask0IsNotRank0) {
  for (const Outcome& o : probe_each({numbered(0, 2, 3), numbered(1, 1, 3), numbered(2, 0, 3)})) {
    EXPECT_EQ(o.exit_code, kProbeError);
    EXPECT_THAT(o.out, AllOf(HasSubstr("Unavailable: PMI"), HasSubstr("RANK"), HasSubstr("secret")));
  }
}

TEST_F(Pmix, CarriesNoSecret_OfOtherRanksThanItsOwn) {
  // One task on each host has started two ranks.
  for (const Outcome& o :
       probe_each({numbered(0, 0, 4, {"FAKE_PMIX_SIZE=2"}), numbered(1, 3, 4, {"FAKE_PMIX_SIZE=2"})})) {
    EXPECT_EQ(o.exit_code, kProbeError);
    EXPECT_THAT(o.out, AllOf(HasSubstr("MASTER_ADDR=203.0.113.7"), HasSubstr("SINEW_SECRET_FILE")));
  }
}

}  // namespace
}  // namespace sinew::test
