#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/checkpoint/async_checkpointer.hpp>
#include <sinew/parallel/checkpoint/folder.hpp>
#include <sinew/parallel/checkpoint/load.hpp>
#include <sinew/parallel/checkpoint/save.hpp>
#include <support/scratch_folder.hpp>
#include <support/worlds.hpp>

#include "saved.hpp"
#include "tensors.hpp"

namespace sinew::parallel {
namespace {

using sinew::test::in_processes;
using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;
using sinew::test::ScratchFolder;
using test::Lying;
using test::names_in;
using test::parts_of_rank;
using test::require_loads;
using ::testing::ElementsAre;

constexpr int kRanks = 3;

void save(const std::string& folder, std::int64_t step, const SaveOptions& options = {}) {
  on_threads(kRanks, only("inproc"), [&](World& world) {
    const auto parts = parts_of_rank(Lying::Rows, world.rank(), kRanks, true);
    save_checkpoint(world.communicator(), folder, parts.all, {.step = step}, options);
  });
}

class Killed : public ::testing::TestWithParam<SaveStage> {};

/// The job's process dies at once, wherever the save is.
TEST_P(Killed, DuringASave_LeavesThePreviousCheckpoint_AndTheNextSaveCleansUp) {
  const bool was_in_place = GetParam() == SaveStage::InPlace;
  ScratchFolder folder;
  save(folder / "c", 1);
  for (const std::int64_t step : {2, 1}) {  // another step; the same one again
    const pid_t child = fork();
    if (child == 0) {
      save(folder / "c", step, {.reached = [](SaveStage stage) {
             if (stage == GetParam()) raise(SIGKILL), pause();
           }});
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    if (step == 2 && !was_in_place) {
      EXPECT_EQ(names_in(folder / "c").size(), 2U) << "the test has interrupted nothing";
    }
    require_loads(folder / "c", was_in_place ? 2 : 1);
  }
  save(folder / "c", 3);
  require_loads(folder / "c", 3);
  for (const std::string& name : names_in(folder / "c")) EXPECT_TRUE(name.starts_with("step-")) << name;
}

std::string name_of_stage(const ::testing::TestParamInfo<SaveStage>& stage) {
  return std::array{"Folder", "Written", "Indexed", "InPlace"}[static_cast<std::size_t>(stage.param)];
}
INSTANTIATE_TEST_SUITE_P(Checkpoint, Killed,
                         ::testing::Values(SaveStage::Folder, SaveStage::Written, SaveStage::Indexed,
                                           SaveStage::InPlace),
                         name_of_stage);

/// Files of this process end at so many bytes, as on a full disk.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit now{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &now);
  }
  ~FileLimit() { setrlimit(RLIMIT_FSIZE, &before_); }
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;

 private:
  rlimit before_{};
};

template <class F>
std::string system_error_of(const F& f) {
  try {
    f();
  } catch (const Error& e) {
    require(e.code() == Code::System, e.what());
    return e.what();
  }
  return "no error";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Checkpoint, SaysWhichRanksDiskIsFull_AndTheJobGoesOn) {
  ScratchFolder folder;
  save(folder / "c", 1);
  in_processes(kRanks, only("shm"), [&](World& world) {
    const auto parts = parts_of_rank(Lying::Rows, world.rank(), kRanks, true);
    const auto save_step_2 = [&](bool async) {
      if (!async) return save_checkpoint(world.communicator(), folder / "c", parts.all, {.step = 2});
      AsyncCheckpointer checkpointer(world.communicator(), folder / "c");
      checkpointer.save(parts.all, {.step = 2});
      checkpointer.finish();
    };
    for (const bool async : {false, true}) {
      std::string said;
      {
        const FileLimit limit(world.rank() == 1 ? 1'000'000 : RLIM_INFINITY);
        said = system_error_of([&] { save_step_2(async); });
      }
      require(has(said, "rank 1 on ") && has(said, "rank-00001-of-00003.safetensors: after 1000000 bytes") &&
                  has(said, "File too large"),
              said);
      std::array<int, 1> sum{1};
      world.communicator().all_reduce(sum).get();
      require(sum[0] == kRanks && names_in(folder / "c").size() == 1, "something is left");
    }
    world.communicator().barrier().get();
    save_step_2(true);
  });
  require_loads(folder / "c", 2);
}

TEST(Checkpoint, SaysThatAFolderCannotBeMade) {
  ScratchFolder folder;
  std::ofstream(folder / "file") << "no folder";
  on_threads(2, only("inproc"), [&](World& world) {
    const auto parts = parts_of_rank(Lying::Rows, world.rank(), 2, true);
    const std::string said =
        system_error_of([&] { save_checkpoint(world.communicator(), folder / "file", parts.all, {.step = 1}); });
    require(has(said, folder / "file") && has(said, "rank 0 on"), said);
  });
}

}  // namespace
}  // namespace sinew::parallel
