#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <new>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/checkpoint/async_checkpointer.hpp>
#include <sinew/parallel/checkpoint/folder.hpp>
#include <sinew/parallel/checkpoint/load.hpp>
#include <support/ranks.hpp>
#include <support/scratch_folder.hpp>
#include <support/worlds.hpp>

#include "tensors.hpp"

namespace sinew::parallel {
namespace {

using sinew::test::fork_ranks;
using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;
using sinew::test::ScratchFolder;
using test::Lying;
using test::Parts;

constexpr int kSavingRanks = 3;

/// A number that processes share.
class SharedNumber {
 public:
  SharedNumber()
      : memory_(::mmap(nullptr, sizeof(Number), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)),
        number_(new(memory_) Number(-1)) {}
  ~SharedNumber() { ::munmap(memory_, sizeof(Number)); }
  SharedNumber(const SharedNumber&) = delete;
  SharedNumber& operator=(const SharedNumber&) = delete;
  std::atomic<std::int64_t>& operator*() const noexcept { return *number_; }

 private:
  using Number = std::atomic<std::int64_t>;
  void* memory_;
  Number* number_;
};

/// Small enough for several saves in each of the tests' jobs, so that the moment of the kill may be anywhere in a save.
Parts parts_of_job(Lying how, int rank, int ranks, bool filled) {
  Parts parts;
  for (const CheckpointItem& item : {CheckpointItem{"a", DType::F32, {70, 50}}, CheckpointItem{"b", DType::F64, {301}},
                                     CheckpointItem{"c", DType::U8, {200'000}}})
    add_parts(parts, item, how, rank, ranks, filled);
  return parts;
}

/// Changes the bytes to those of a step, or back.
void change_by_step(const Parts& parts, std::int64_t step) {
  const auto mask = static_cast<std::byte>(0x9E3779B97F4A7C15ULL * static_cast<std::uint64_t>(step) >> 56);
  for (const CheckpointPart& part : parts.all) {
    for (std::byte& b : std::span(part.buffer.data, part.buffer.bytes)) b ^= mask;
  }
}

/// Steps and saves without an end. in_place: the newest step of which rank 0 knows that its save has ended.
void train_and_save(World& world, const std::string& folder, std::int64_t first, std::atomic<std::int64_t>& in_place) {
  AsyncCheckpointer checkpointer(world.communicator(), folder);
  for (std::int64_t step = first;; ++step) {
    Parts parts = parts_of_job(Lying::Rows, world.rank(), kSavingRanks, true);
    change_by_step(parts, step);
    (void)checkpointer.save(parts.all, {.step = step});
    checkpointer.finish_copy();
    for (const CheckpointPart& part : parts.all) std::fill_n(part.buffer.data, part.buffer.bytes, std::byte{0xEE});
    world.communicator().barrier().get();
    if (world.rank() == 0 && checkpointer.in_place()) in_place = *checkpointer.in_place();
  }
}

/// The newest checkpoint has exactly the state of its step, and no save that had ended is missing. Returns its step.
std::int64_t require_whole(const std::string& folder, std::int64_t in_place) {
  const std::int64_t step = latest_step(folder).value_or(-1);
  EXPECT_GE(step, in_place) << "a save had ended, and its checkpoint is not there";
  if (step < 0) return step;
  on_threads(2, only("inproc"), [&](World& world) {
    Parts parts = parts_of_job(Lying::Flat, world.rank(), 2, false);
    const Loaded loaded = load_checkpoint(world.communicator(), step_folder(folder, step), parts.all);
    change_by_step(parts, loaded.metadata.step);
    require(parts.wrong_bytes() == 0 && loaded.metadata.step == step, "the state of one step");
  });
  return step;
}

std::chrono::microseconds some_time(std::mt19937& random) {
  return std::chrono::microseconds(std::uniform_int_distribution<int>(0, 200'000)(random));
}

/// One save to its end, in a new job. Nothing of an interrupted save is left then.
void require_next_save_cleans_up(const std::string& folder, std::int64_t step) {
  on_threads(kSavingRanks, only("inproc"), [&](World& world) {
    AsyncCheckpointer checkpointer(world.communicator(), folder);
    Parts parts = parts_of_job(Lying::Rows, world.rank(), kSavingRanks, true);
    change_by_step(parts, step);
    (void)checkpointer.save(parts.all, {.step = step});
    checkpointer.finish();
  });
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    EXPECT_TRUE(entry.path().filename().string().starts_with("step-")) << entry.path();
  EXPECT_EQ(require_whole(folder, step), step);
}

TEST(KilledAsyncCheckpointer, LeavesALoadableCheckpoint_WhenTheJobIsKilledAtAnyMoment) {
  std::mt19937 random(20261129);  // a fixed seed: the moments still differ, because the machine does
  ScratchFolder folder;
  std::int64_t step = -1;
  int interrupted = 0;
  for (int job = 0; job < 30; ++job) {
    SharedNumber in_place;
    const pid_t child = ::fork();
    if (child == 0) {
      on_threads(kSavingRanks, only("inproc"),
                 [&](World& world) { train_and_save(world, folder / "c", step + 1, *in_place); });
      ::_exit(1);  // a rank has thrown
    }
    std::this_thread::sleep_for(some_time(random));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the job has ended by itself";
    const std::int64_t found = std::filesystem::exists(folder / "c") ? require_whole(folder / "c", *in_place) : -1;
    EXPECT_GE(found, step);
    step = found;
    if (!std::filesystem::exists(folder / "c")) continue;
    for (const auto& entry : std::filesystem::directory_iterator(folder / "c"))
      interrupted += entry.path().filename().string().starts_with(".partial-") ? 1 : 0;
  }
  EXPECT_GT(step, 5) << "hardly any save has ended";
  EXPECT_GT(interrupted, 3) << "hardly any save was interrupted";
  require_next_save_cleans_up(folder / "c", step + 1);
}

TEST(KilledAsyncCheckpointer, LeavesALoadableCheckpoint_WhenOneRankIsKilledAtAnyMoment) {
  std::mt19937 random(20261130);
  ScratchFolder folder;
  std::int64_t step = -1;
  for (int job = 0; job < 9; ++job) {
    const int killed = job % kSavingRanks;
    const auto after = some_time(random);
    SharedNumber in_place;
    const std::vector<int> statuses = fork_ranks(kSavingRanks, [&](const Exchange& exchange) {
      World world = World::create(exchange, only("shm"));
      std::thread killer([&] {
        if (world.rank() != killed) return;
        std::this_thread::sleep_for(after);
        std::raise(SIGKILL);
      });
      try {
        train_and_save(world, folder / "c", step + 1, *in_place);
      } catch (const Error& e) {
        require(e.code() == Code::PeerLost, e.what());
      }
      killer.join();
    });
    for (int r = 0; r < kSavingRanks; ++r) {
      const int status = statuses[static_cast<std::size_t>(r)];
      EXPECT_TRUE(r == killed ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL
                              : WIFEXITED(status) && WEXITSTATUS(status) == 0)
          << "rank " << r << " ended with wait status " << status << " after the death of rank " << killed;
    }
    if (std::filesystem::exists(folder / "c")) step = require_whole(folder / "c", *in_place);
  }
  EXPECT_GE(step, 0) << "no save has ended";
  require_next_save_cleans_up(folder / "c", step + 1);
}

}  // namespace
}  // namespace sinew::parallel
