#include <array>
#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/transports/nccl/library/features.hpp>
#include <sinew/transports/nccl/library/library.hpp>

#include "fakes/fake_nccl.hpp"
#include "support/log_guard.hpp"
#include "support/scratch_folder.hpp"
#include "support/worlds.hpp"
#include "transports/nccl/nccl_worlds.hpp"

namespace sinew::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

namespace files = std::filesystem;

std::string reason_of(const std::string& library) {
  try {
    return nccl::load_library(library).file + " was taken";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::Unavailable);
    return e.what();
  }
}

files::path put(const files::path& packages) {
  const files::path file = packages / "nvidia/nccl/lib/libnccl.so.2";
  files::create_directories(file.parent_path());
  std::ofstream(file) << "a library";
  return file;
}

TEST(NcclLibrary, SaysWhatIsWrongWithAFile) {
  const ScratchFolder folder;
  EXPECT_THAT(reason_of("/nonexistent/libnccl.so.2"),
              AllOf(HasSubstr("/nonexistent/libnccl.so.2"), HasSubstr("No such file or directory")));
  EXPECT_THAT(reason_of(put(folder / "packages")), HasSubstr("file too short"));
  EXPECT_THAT(reason_of("libm.so.6"), HasSubstr("libm.so.6 is no NCCL: it has no ncclGetVersion"));
}

TEST(NcclLibrary, SaysBothVersions_WhenItIsTooOld) {
  fake_nccl_inject(kFakeNcclVersion, 0, 21403);
  EXPECT_THAT(reason_of(FAKE_NCCL), HasSubstr("found NCCL 2.14.3 in " FAKE_NCCL ", expected 2.18 or later"));
  fake_nccl_reset();
  EXPECT_EQ(nccl::version_text(2708), "2.7.8");
}

TEST(NcclLibrary, HasWhatItsVersionHas) {
  const auto features = [](int version) {
    fake_nccl_inject(kFakeNcclVersion, 0, version);
    const nccl::Features f = nccl::features_of(nccl::load_library(FAKE_NCCL).api);
    fake_nccl_reset();
    return std::array{f.split, f.registration, f.windows, f.all_to_all && f.gather && f.scatter};
  };
  EXPECT_THAT(features(22809), ElementsAre(true, true, true, true));
  EXPECT_THAT(features(22707), ElementsAre(true, true, true, false));
  EXPECT_THAT(features(22605), ElementsAre(true, true, false, false));
  EXPECT_THAT(features(21806), ElementsAre(true, false, false, false));
}

TEST(NcclLibrary, DoesWithoutWhatABuildLacks) {
  const nccl::Library bare = nccl::load_library(FAKE_NCCL_BARE);
  EXPECT_EQ(bare.version, 22809);
  const nccl::Features f = nccl::features_of(bare.api);
  EXPECT_FALSE(f.split || f.registration || f.windows || f.all_to_all || f.gather || f.scatter);
  EXPECT_FALSE(nccl::common_to(f, nccl::features_of(nccl::load_library(FAKE_NCCL).api)).windows);
}

/// Every function is there under its name. No more: the fake's would stand in for its own.
TEST(NcclLibrary, IsNvidias_WhereThatIs) {
  if (!files::exists(REAL_NCCL)) GTEST_SKIP() << "no libnccl.so.2 of NVIDIA's was found when this was configured";
  const nccl::Library real = nccl::load_library(REAL_NCCL);
  EXPECT_GE(real.version, nccl::kOldest);
  const nccl::Features f = nccl::features_of(real.api);
  EXPECT_TRUE(f.split);
  EXPECT_EQ(f.registration, real.version >= nccl::kFirstWithRegistration);
  EXPECT_EQ(f.windows, real.version >= nccl::kFirstWithWindows);
}

TEST(NcclLibrary, IsFoundBesidePyTorch_LaterPythonsFirst) {
  const ScratchFolder folder;
  const files::path environment = folder / "environment";
  const files::path system = folder / "system";
  const files::path older = put(environment / "lib/python3.9/site-packages");
  const files::path newer = put(environment / "lib/python3.11/site-packages");
  const files::path debian = put(system / "lib/python3/dist-packages");
  files::create_directories(environment / "lib/python3.12/site-packages/nvidia");
  EXPECT_THAT(nccl::packaged_libraries({environment, files::path(folder / "nothing"), system}),
              ElementsAre(newer, older, debian));
}

TEST(NcclLibrary, LeavesTheWorldAtWork_WhereARankHasNone) {
  for (const char* library : {"/nonexistent/libnccl.so.2", FAKE_NCCL}) {
    const bool is_old = library != std::string("/nonexistent/libnccl.so.2");
    if (is_old) fake_nccl_inject(kFakeNcclVersion, 0, 21403);
    WorldOptions options = with_nccl();
    options.config.nccl_library = library;
    ExpectLog log(log::Level::Warning, "transport nccl, which was asked for, is left out: ");
    const auto body = [is_old](World& world, const OnDevice& where) {
      const TransportStatus status = status_of(world, "nccl");
      require(!status.ok, "it cannot be opened");
      require(status.reason.find(is_old ? "found NCCL 2.14.3" : "No such file") != std::string::npos, status.reason);
      require_sum(world.communicator(), where);
    };
    on_nccl(2, body, options);
  }
}

TEST(NcclLibrary, IsNotLookedFor_WhereThereIsNoDevice) {
  ExpectLog log(log::Level::Warning, "transport nccl, which was asked for, is left out: ");
  on_threads(2, with_nccl(), [](World& world) {
    const TransportStatus status = status_of(world, "nccl");
    require(status.reason == "no accelerator is visible", status.reason);
  });
}

}  // namespace
}  // namespace sinew::test
