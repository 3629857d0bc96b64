#include <cstdint>
#include <gpt/train/checkpoints.hpp>
#include <gpt/train/trainer.hpp>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include <support/scratch_folder.hpp>
#include <support/worlds.hpp>

#include "layouts.hpp"

namespace gpt::test {
namespace {

using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;

/// Replicated parameters, of which any rank has the whole.
Options few_steps() {
  Options options = models().front().second;
  options.steps = 3;
  return options;
}

void train(const Options& options, const Text& text) {
  on_threads(2, only("inproc"), [&](sinew::World& world) {
    Trainer trainer(world, options, text);
    Checkpoints checkpoints(world, options, trainer);
    for (std::int64_t step = 0; step < options.steps; ++step) {
      trainer.step(step);
      checkpoints.after(step);
    }
    require(checkpoints.finish(), "saved");
  });
}

/// A rank that dies while a checkpoint is read leaves ranks with the values that training begins with, or with some of
/// each: they hold no step, not the first one.
TEST(Recovery, IsFromTheCheckpoint_WhereThatWasNotReadYet) {
  const sinew::test::ScratchFolder folder;
  const Text text = words();
  Options options = few_steps();
  options.save = folder / "c";
  train(options, text);
  options.resume = std::exchange(options.save, "");
  on_threads(2, only("inproc"), [&](sinew::World& world) {
    Trainer reading(world, options, text);
    Checkpoints before(world, options, reading);
    Trainer trainer(world, options, text);
    Checkpoints after(world, options, trainer);
    require(after.recover(&before) == options.steps, "from the checkpoint");
    require(trainer.steps_done() == options.steps, "which it has seen");
    require(after.recover(nullptr) == options.steps, "and again by ranks that hold nothing");
  });
}

/// Where there is none yet: the values that training begins with are the first step's.
TEST(Recovery, IsFromMemory_WhereAFirstStartFoundNoCheckpoint) {
  const sinew::test::ScratchFolder folder;
  const Text text = words();
  Options options = few_steps();
  options.save = options.resume = folder / "c";
  on_threads(2, only("inproc"), [&](sinew::World& world) {
    Trainer begun(world, options, text);
    Checkpoints before(world, options, begun);
    require(before.resume() == 0 && begun.steps_done() == 0, "begins anew");
    begun.step(0);
    Trainer trainer(world, options, text);
    Checkpoints after(world, options, trainer);
    require(after.recover(&before) == 1, "goes on with what is held");
  });
}

/// The scale of the loss goes with what is held, under another layout too.
TEST(Recovery, GoesOnWithTheLossScale) {
  const Text text = words();
  Options options = few_steps();
  options.loss_scale.emplace();
  options.overflow_at = {0};
  on_threads(2, only("inproc"), [&](sinew::World& world) {
    Trainer begun(world, options, text);
    Checkpoints before(world, options, begun);
    require(begun.step(0).is_skipped && !begun.step(1).is_skipped, "one of two");
    Options other = options;
    other.job.layout.tp = 2;
    Trainer trainer(world, other, text);
    Checkpoints after(world, other, trainer);
    require(after.recover(&before) == 2, "goes on with what is held");
    require(trainer.scaling() == sinew::parallel::LossScaleState{32768, 1, 1}, "and with its scale");
    require(trainer.held().front().optimizer.steps() == 1, "and with the steps that were made");
  });
}

}  // namespace
}  // namespace gpt::test
