#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/pipeline/generators.hpp>
#include <sinew/parallel/pipeline/passes.hpp>
#include <sinew/parallel/pipeline/pipeline_runner.hpp>
#include <support/worlds.hpp>

namespace sinew::parallel {
namespace {

using sinew::test::complaint;
using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;

constexpr std::int64_t kModulus = 1'000'003;

std::int64_t through(std::int64_t x, std::int32_t stage) { return (x * (stage + 2) + 7 * stage + 1) % kModulus; }
std::int64_t back(std::int64_t x, std::int32_t stage) { return (x * (stage + 3) + 5 * stage + 2) % kModulus; }

/// What a micro-batch is after all stages, and its gradient before the first one.
std::int64_t forward_of(std::int32_t micro_batch, std::int32_t stages) {
  std::int64_t x = 1000 + micro_batch;
  for (std::int32_t s = 0; s < stages; ++s) x = through(x, s);
  return x;
}
std::int64_t backward_of(std::int32_t micro_batch, std::int32_t stages) {
  std::int64_t x = forward_of(micro_batch, stages) + 1;
  for (std::int32_t s = stages; s-- > 0;) x = back(x, s);
  return x;
}

/// Stages over whole numbers, each boundary of another length; it looks at all that it is given.
class NumberEngine final : public StageEngine {
 public:
  NumberEngine(std::int32_t stages, std::int32_t micro_batches)
      : stages_(stages), last_(static_cast<std::size_t>(micro_batches)), first_(last_), weights_(last_.size()) {}

  std::size_t output_bytes(std::int32_t stage) const override {
    if (too_long) return std::size_t{1} << 50;
    return stage + 1 == stages_ ? 0 : sizeof(std::int64_t) * static_cast<std::size_t>(stage % 3 + 1);
  }
  std::size_t forward(std::int32_t stage, std::int32_t m, ConstBuffer in, Buffer out) override {
    const std::int64_t x = through(stage == 0 ? 1000 + m : read(in), stage);
    if (stage + 1 == stages_) last_[static_cast<std::size_t>(m)] = x;
    write(x, out);
    return stage == short_stage ? out.bytes - 1 : out.bytes;
  }
  std::size_t backward(std::int32_t stage, std::int32_t m, ConstBuffer dout, Buffer din) override {
    ++weights_[static_cast<std::size_t>(m)];
    return input_gradient(stage, m, dout, din);
  }
  std::size_t input_gradient(std::int32_t stage, std::int32_t m, ConstBuffer dout, Buffer din) override {
    const std::int64_t x = back(stage + 1 == stages_ ? last_[static_cast<std::size_t>(m)] + 1 : read(dout), stage);
    if (stage == 0) first_[static_cast<std::size_t>(m)] = x;
    write(x, din);
    return din.bytes;
  }
  void weight_gradient(std::int32_t /*stage*/, std::int32_t m) override { ++weights_[static_cast<std::size_t>(m)]; }

  void require_right(const PipelineSchedule& schedule, std::int32_t rank, const std::string& which) const {
    std::int32_t own = 0;
    for (const std::int32_t r : schedule.rank_of) own += r == rank ? 1 : 0;
    for (std::int32_t m = 0; m < schedule.micro_batches; ++m) {
      const auto at = static_cast<std::size_t>(m);
      require(weights_[at] == own, which + "gradients of weights");
      if (schedule.rank_of.back() == rank) require(last_[at] == forward_of(m, stages_), which + "forward");
      if (schedule.rank_of.front() == rank) require(first_[at] == backward_of(m, stages_), which + "backward");
    }
  }

  std::int32_t short_stage = -1;  // writes too little
  bool too_long = false;          // what goes between stages

 private:
  /// All numbers of a boundary are the same.
  static std::int64_t read(ConstBuffer from) {
    std::int64_t x = -1;
    for (std::size_t at = 0; at < from.bytes; at += sizeof x) {
      std::int64_t one;
      std::memcpy(&one, from.data + at, sizeof one);
      if (at > 0) require(one == x, "a boundary was written over");
      x = one;
    }
    return x;
  }
  static void write(std::int64_t x, Buffer to) {
    for (std::size_t at = 0; at < to.bytes; at += sizeof x) std::memcpy(to.data + at, &x, sizeof x);
  }

  std::int32_t stages_;
  std::vector<std::int64_t> last_, first_;
  std::vector<std::int32_t> weights_;
};

TEST(PipelineRunner, MakesWhatStagesMakeOneAfterTheOther) {
  for (const NamedGenerator& generator : generators()) {
    for (std::int32_t ranks = 1; ranks <= 4; ++ranks) {
      for (const std::int32_t micro_batches : {1, 2, 3, 5, 9}) {
        for (std::int32_t v = 1; v <= (generator.has_virtual_stages ? 3 : 1); ++v) {
          const PipelineSchedule schedule = with_messages(generator.make(ranks, micro_batches, v));
          const std::string which =
              fmt::format("{}, {} ranks, {} micro-batches, {} stages each: ", generator.name, ranks, micro_batches, v);
          on_threads(ranks, only("inproc"), [&](World& world) {
            NumberEngine engine(schedule.stages(), micro_batches);
            PipelineRunner runner(world.communicator(), schedule, engine);
            const std::size_t held = runner.held_bytes();
            for (int step = 0; step < 3; ++step) {
              engine = NumberEngine(schedule.stages(), micro_batches);
              runner.run();
              engine.require_right(schedule, world.rank(), which);
            }
            require(runner.held_bytes() == held, which + "room");
          });
        }
      }
    }
  }
}

TEST(PipelineRunner, SaysWhatAStageHasNotWritten) {
  on_threads(2, only("inproc"), [](World& world) {
    NumberEngine engine(2, 2);
    engine.short_stage = 0;
    PipelineRunner runner(world.communicator(), with_messages(gpipe(2, 2)), engine);
    if (world.rank() > 0) return;  // gets nothing, and gives up with its peer
    const std::string said = complaint([&] { runner.run(); });
    require(said == "pipeline: the output of stage 0 for micro-batch 0 on rank 0 has made 7 bytes, expected 8", said);
  });
}

TEST(PipelineRunner, RefusesWhatIsNotProved) {
  on_threads(2, only("inproc"), [](World& world) {
    NumberEngine engine(2, 2);
    const auto said = [&](const PipelineSchedule& schedule) {
      return complaint([&] { PipelineRunner(world.communicator(), schedule, engine); });
    };
    require(said(with_messages(gpipe(3, 2))).find("is of 3 ranks, expected 2") != std::string::npos, "ranks");
    NumberEngine huge(2, 2);
    huge.too_long = true;
    require(complaint([&] {
              PipelineRunner(world.communicator(), with_messages(gpipe(2, 2)), huge);
            }).find("bytes between two stages, expected 0 to") != std::string::npos,
            "bytes");
    PipelineSchedule schedule = with_messages(gpipe(2, 2));
    schedule.actions[0].pop_back();
    require(said(schedule).find("is not proved: ") != std::string::npos, said(schedule));
  });
}

}  // namespace
}  // namespace sinew::parallel
