#include <sys/resource.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/checkpoint/async_checkpointer.hpp>
#include <sinew/parallel/checkpoint/folder.hpp>
#include <sinew/parallel/checkpoint/load.hpp>
#include <sinew/parallel/checkpoint/training_parts.hpp>
#include <support/scratch_folder.hpp>
#include <support/worlds.hpp>

#include "../support/small.hpp"
#include "saved.hpp"
#include "tensors.hpp"

namespace sinew::parallel {
namespace {

using sinew::test::complaint;
using sinew::test::in_processes;
using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;
using sinew::test::require_part;
using sinew::test::ScratchFolder;
using test::Lying;
using test::names_in;
using test::Parts;
using test::parts_of_rank;
using test::require_loads;
using ::testing::ElementsAre;

constexpr int kAsyncRanks[] = {1, 2, 3, 5, 8};

void overwrite(const Parts& parts) {
  for (const CheckpointPart& part : parts.all) std::fill_n(part.buffer.data, part.buffer.bytes, std::byte{0xEE});
}

/// Other calls of a training, until the save has ended on this rank. No rank waits for it.
void train_until_in_place(World& world, AsyncCheckpointer& checkpointer) {
  for (bool ended = false; !ended;) {
    std::array<std::int32_t, 1> all{checkpointer.poll() ? 1 : 0};
    world.communicator().all_reduce(all, ReduceOp::Min).get();
    ended = all[0] == 1;
  }
}

/// The message of the Error with code System that `f` throws.
template <class F>
std::string system_failure_of(const F& f) {
  try {
    f();
  } catch (const Error& e) {
    require(e.code() == Code::System, e.what());
    return e.what();
  }
  return "no error";
}

TEST(AsyncCheckpointer, SavesWhatWasThereWhenItBegan_WithoutACallThatWaits) {
  for (const int ranks : kAsyncRanks) {
    ScratchFolder folder;
    on_threads(ranks, only("inproc"), [&](World& world) {
      AsyncCheckpointer checkpointer(world.communicator(), folder / "c");
      require(checkpointer.poll() && !checkpointer.in_place(), "nothing was saved yet");
      auto parts = parts_of_rank(Lying::Columns, world.rank(), ranks, true);
      require(checkpointer.save(parts.all, {.step = 1}), "saves");
      checkpointer.finish_copy();
      overwrite(parts);
      train_until_in_place(world, checkpointer);
      require(checkpointer.in_place() == 1, "in place");
      checkpointer.finish();  // of nothing
    });
    require_loads(folder / "c", 1);
    EXPECT_THAT(names_in(folder / "c"), ElementsAre("step-000001"));
  }
}

TEST(AsyncCheckpointer, SavesManySteps_OfTheSamePartsAndOfOthers) {
  for (const int ranks : {1, 3, 4}) {
    ScratchFolder folder;
    on_threads(ranks, only("inproc"), [&](World& world) {
      AsyncCheckpointer checkpointer(world.communicator(), folder / "c");
      std::int64_t step = 0;
      for (const Lying lying :
           {Lying::Rows, Lying::Rows, Lying::Flat, Lying::Flat, Lying::Copies, Lying::FlatOfColumns}) {
        auto parts = parts_of_rank(lying, world.rank(), ranks, true);  // at another address each time
        require(checkpointer.save(parts.all, {.step = ++step, .optimizer_steps = 10 * step}), "saves");
        checkpointer.finish_copy();
        overwrite(parts);
        if (step % 3 == 0) checkpointer.finish();
      }
      checkpointer.finish();
      require(checkpointer.in_place() == step, "the last one");
    });
    for (const std::int64_t step : {1, 2, 3, 4, 5, 6}) {
      on_threads(2, only("inproc"), [&](World& world) {
        auto parts = parts_of_rank(Lying::Rows, world.rank(), 2, false);
        const Loaded loaded = load_checkpoint(world.communicator(), step_folder(folder / "c", step), parts.all);
        require(parts.wrong_bytes() == 0 && loaded.metadata.optimizer_steps == 10 * step, "each step as it was saved");
      });
    }
  }
}

TEST(AsyncCheckpointer, ReplacesACheckpointOfTheSameStep) {
  ScratchFolder folder;
  on_threads(3, only("inproc"), [&](World& world) {
    AsyncCheckpointer checkpointer(world.communicator(), folder / "c");
    auto parts = parts_of_rank(Lying::Rows, world.rank(), 3, true);
    for (const std::int64_t steps : {7, 8}) {
      require(checkpointer.save(parts.all, {.step = 1, .optimizer_steps = steps}), "saves");
      checkpointer.finish();
    }
  });
  require_loads(folder / "c", 1);
  EXPECT_EQ(read_contents(step_folder(folder / "c", 1)).metadata.optimizer_steps, 8);
  EXPECT_THAT(names_in(folder / "c"), ElementsAre("step-000001"));
}

TEST(AsyncCheckpointer, WaitsSkipsOrRefuses_WhileASaveIsInFlight) {
  for (const WhenBusy when_busy : {WhenBusy::Wait, WhenBusy::Skip, WhenBusy::Refuse}) {
    ScratchFolder folder;
    on_threads(3, only("inproc"), [&](World& world) {
      AsyncCheckpointer checkpointer(world.communicator(), folder / "c", {.when_busy = when_busy});
      auto parts = parts_of_rank(Lying::Rows, world.rank(), 3, true);
      require(checkpointer.save(parts.all, {.step = 1}), "saves");
      if (when_busy == WhenBusy::Refuse) {
        const std::string said = complaint([&] { (void)checkpointer.save(parts.all, {.step = 2}); });
        require_part(said, "save of step 2 to ");
        require_part(said, "the save of step 1 has not ended; expected finish() first");
      } else {
        require(checkpointer.save(parts.all, {.step = 2}) == (when_busy == WhenBusy::Wait), "begins the second save");
      }
      checkpointer.finish();
      require(checkpointer.save(parts.all, {.step = 3}), "not busy any more");
      checkpointer.finish();
    });
    EXPECT_EQ(latest_step(folder / "c"), 3);
    EXPECT_EQ(std::filesystem::exists(step_folder(folder / "c", 2)), when_busy == WhenBusy::Wait);
  }
}

/// Files of this process end at so many bytes, as on a full disk.
class AsyncFileLimit {
 public:
  explicit AsyncFileLimit(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit now{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &now);
  }
  ~AsyncFileLimit() { setrlimit(RLIMIT_FSIZE, &before_); }
  AsyncFileLimit(const AsyncFileLimit&) = delete;
  AsyncFileLimit& operator=(const AsyncFileLimit&) = delete;

 private:
  rlimit before_{};
};

TEST(AsyncCheckpointer, SaysWhichRanksDiskIsFull_InTheNextCall_AndTheJobGoesOn) {
  ScratchFolder folder;
  in_processes(3, only("shm"), [&](World& world) {
    AsyncCheckpointer checkpointer(world.communicator(), folder / "c");
    const auto parts = parts_of_rank(Lying::Rows, world.rank(), 3, true);
    (void)checkpointer.save(parts.all, {.step = 1});
    checkpointer.finish();
    for (const bool by_finish : {true, false}) {
      {
        const AsyncFileLimit limit(world.rank() == 1 ? 1'000'000 : RLIM_INFINITY);
        (void)checkpointer.save(parts.all, {.step = 2});
        train_until_in_place(world, checkpointer);
      }
      require(checkpointer.in_place() == 1, "the failed save is not in place");
      const std::string said = system_failure_of(
          [&] { by_finish ? checkpointer.finish() : (void)checkpointer.save(parts.all, {.step = 3}); });
      for (const char* part : {"save of step 2 to ", ": rank 1 on ",
                               "rank-00001-of-00003.safetensors: after 1000000 bytes", "File too large"})
        require_part(said, part);
      require(names_in(folder / "c").size() == 1, "something is left");
      checkpointer.finish();  // a failure is thrown once
      world.communicator().barrier().get();
    }
    (void)checkpointer.save(parts.all, {.step = 4});
    checkpointer.finish();
  });
  require_loads(folder / "c", 4);
}

TEST(AsyncCheckpointer, SaysThatAFolderCannotBeMade) {
  ScratchFolder folder;
  std::ofstream(folder / "file") << "no folder";
  on_threads(2, only("inproc"), [&](World& world) {
    AsyncCheckpointer checkpointer(world.communicator(), folder / "file");
    const auto parts = parts_of_rank(Lying::Rows, world.rank(), 2, true);
    (void)checkpointer.save(parts.all, {.step = 1});
    const std::string said = system_failure_of([&] { checkpointer.finish(); });
    require_part(said, folder / "file");
    require_part(said, "rank 0 on ");
  });
}

TEST(AsyncCheckpointer, RefusesWhatNoCheckpointHas_OnAllRanks_AndKeepsTheSaveInFlight) {
  ScratchFolder folder;
  on_threads(3, only("inproc"), [&](World& world) {
    AsyncCheckpointer checkpointer(world.communicator(), folder / "c");
    auto parts = parts_of_rank(Lying::Rows, world.rank(), 3, true);
    (void)checkpointer.save(parts.all, {.step = 1});
    require_part(complaint([&] { (void)checkpointer.save(parts.all, {.step = world.rank() == 2 ? -4 : 2}); }),
                 "rank 2 on ");
    auto cut = parts.all;
    if (world.rank() == 1) cut.front().buffer.bytes -= 1;
    require_part(complaint([&] { (void)checkpointer.save(cut, {.step = 2}); }), "rank 1 on ");
    checkpointer.finish();
    require(checkpointer.in_place() == 1, "the save in flight");
    require_part(
        complaint([&] { (void)checkpointer.save(parts.all, {.step = 2, .seed = world.rank() == 0 ? 1U : 2U}); }),
        "seed 1");
    auto holes = parts.all;
    if (world.rank() == 0) holes.erase(holes.begin());
    require_part(complaint([&] { (void)checkpointer.save(holes, {.step = 2}); }), "'a'");
    require(checkpointer.save(parts.all, {.step = 2}), "goes on");
    checkpointer.finish();
  });
  require_loads(folder / "c", 2);
}

TEST(AsyncCheckpointer, RefusesOptionsThatDiffer) {
  ScratchFolder folder;
  on_threads(2, only("inproc"), [&](World& world) {
    const std::string mine = folder / (world.rank() == 0 ? "c" : "d");
    require_part(complaint([&] { AsyncCheckpointer(world.communicator(), mine); }), "asynchronous checkpoints: rank 0");
  });
}

TEST(AsyncCheckpointer, LeavesWholeCheckpoints_WhenItEndsWithASaveInFlight) {
  ScratchFolder folder;
  on_threads(3, only("inproc"), [&](World& world) {
    const auto parts = parts_of_rank(Lying::Columns, world.rank(), 3, true);
    for (const std::int64_t step : {1, 2}) {
      AsyncCheckpointer checkpointer(world.communicator(), folder / "c");
      (void)checkpointer.save(parts.all, {.step = step});
      if (step == 1) checkpointer.finish();
    }
    world.communicator().barrier().get();
    AsyncCheckpointer next(world.communicator(), folder / "c");
    (void)next.save(parts.all, {.step = 3});
    next.finish();
  });
  require_loads(folder / "c", 3);
  EXPECT_THAT(names_in(folder / "c"), ElementsAre("step-000001", "step-000003"));
}

/// The owned parts may be changed as soon as finish_backward() has returned them.
TEST(AsyncCheckpointer, FollowsATraining_ThatChangesParametersAsSoonAsItMay) {
  for (const std::string row : {"ddp", "zero1", "zero2", "zero3"}) {
    for (const int ranks : {1, 2, 3}) {
      ScratchFolder folder;
      constexpr std::int64_t kElements = 3'000'000;
      on_threads(ranks, only("inproc"), [&](World& world) {
        test::Small model(world, row, {{.path = "w", .elements = kElements, .unit = "w", .shape = {kElements}}});
        DataParallel& data = *model.data;
        Optimizer sgd(data.memory(), SgdOptions{.rate = 1});
        AsyncCheckpointer checkpointer(world.communicator(), folder / "c");
        checkpointer.follow(data);
        for (std::int64_t step = 0; step < 4; ++step) {
          require(checkpointer.save(parts_to_save(data, sgd), {.step = step}), "saves");
          test::whole_step(data, 0);
          for (const OwnedPart& part : data.finish_backward())  // an update that is not Optimizer::update
            std::fill_n(reinterpret_cast<float*>(part.value.data), part.last - part.first,
                        static_cast<float>(step + 2));
          data.abandon_step();
          checkpointer.finish();
          require(checkpointer.in_place() == step, "in place");
        }
      });
      on_threads(1, only("inproc"), [&](World& world) {
        for (std::int64_t step = 0; step < 4; ++step) {
          Parts parts;
          parts.add({"w", DType::F32, {kElements}}, range_of({"w", DType::F32, {kElements}}, 0, kElements), false);
          (void)load_checkpoint(world.communicator(), step_folder(folder / "c", step), parts.all);
          const auto* values = reinterpret_cast<const float*>(parts.all.front().buffer.data);
          require(std::all_of(values, values + kElements, [&](float v) { return v == static_cast<float>(step + 1); }),
                  "values of a later step are in the checkpoint");
        }
      });
    }
  }
}

TEST(AsyncCheckpointer, IsToldBeforeParametersMayChange) {
  on_threads(1, only("inproc"), [&](World& world) {
    test::Small model(world, "zero3", test::two_parameters());
    DataParallel& data = *model.data;
    Optimizer sgd(data.memory(), SgdOptions{.rate = 1});
    int told = 0;
    auto reader = data.protocol().join_as_reader([&] { ++told; });
    {
      const auto scope = data.no_sync();
      test::whole_step(data, 1);
      (void)data.finish_backward();
    }
    test::whole_step(data, 1);
    require(told == 0, "nothing may change yet");
    const auto owned = data.finish_backward();
    require(told == 1, "the optimizer is next");
    sgd.update(owned);
    data.updated();
    (void)parts_to_load(data, sgd);
    require(told == 2, "a load is next");
    reader.reset();
    (void)parts_to_load(data, sgd);
    require(told == 2, "the reader has gone");
  });
}

}  // namespace
}  // namespace sinew::parallel
