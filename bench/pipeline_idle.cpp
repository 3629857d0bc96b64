// How long the ranks of a pipeline wait for each other, beside what the time-line simulator says: stages that take a
// given time, messages of a given length. sinew-run -n 2 pipeline_idle prints a JSON object per schedule.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include <sinew/collectives/world.hpp>
#include <sinew/parallel/pipeline/generators/generators.hpp>
#include <sinew/parallel/pipeline/passes/passes.hpp>
#include <sinew/parallel/pipeline/pipeline_runner.hpp>
#include <sinew/parallel/pipeline/timeline/simulate.hpp>
#include <sinew/topology/format/json/json_object.hpp>

#include "command_line.hpp"

namespace {

namespace sp = sinew::parallel;
using Clock = std::chrono::steady_clock;

struct Asked {
  std::int64_t unit_us = 30000;  ///< of a forward pass of a rank; a backward pass takes two
  std::int32_t micro_batches = 8, virtual_stages = 2;
  std::int64_t bytes = 1 << 12;  // not a page
  int steps = 7;
  bool thread = false;  ///< messages go on in a thread of their own
};

/// Stages that take their time and make nothing.
class TimedStages final : public sp::StageEngine {
 public:
  TimedStages(std::int32_t stages, std::chrono::nanoseconds unit, std::size_t bytes)
      : stages_(stages), unit_(unit), bytes_(bytes) {}

  std::size_t output_bytes(std::int32_t stage) const override { return stage + 1 == stages_ ? 0 : bytes_; }
  std::size_t forward(std::int32_t, std::int32_t, sinew::ConstBuffer, sinew::Buffer out) override {
    spend(unit_);
    return out.bytes;
  }
  std::size_t backward(std::int32_t, std::int32_t, sinew::ConstBuffer, sinew::Buffer din) override {
    spend(2 * unit_);
    return din.bytes;
  }
  std::size_t input_gradient(std::int32_t, std::int32_t, sinew::ConstBuffer, sinew::Buffer din) override {
    spend(unit_);
    return din.bytes;
  }
  void weight_gradient(std::int32_t, std::int32_t) override { spend(unit_); }

 private:
  static void spend(std::chrono::nanoseconds time) {
    const auto end = Clock::now() + time;
    while (Clock::now() < end) {
    }
  }

  std::int32_t stages_;
  std::chrono::nanoseconds unit_;
  std::size_t bytes_;
};

/// The median over steps of the share of its time that ranks waited, their mean.
double measured_idle(sinew::World& world, const sp::PipelineSchedule& schedule, const Asked& asked,
                     std::chrono::nanoseconds unit) {
  TimedStages stages(schedule.stages(), unit, static_cast<std::size_t>(asked.bytes));
  sp::PipelineRunner runner(world.communicator(), schedule, stages);
  std::vector<double> shares;
  for (int step = 0; step < asked.steps; ++step) {
    world.communicator().barrier().get();
    const double computed = runner.computed_s();
    const auto begin = Clock::now();
    runner.run();
    world.communicator().barrier().get();
    const double all = std::chrono::duration<double>(Clock::now() - begin).count();
    std::vector<double> share{1 - (runner.computed_s() - computed) / all};
    world.communicator().all_reduce(share).get();
    shares.push_back(share[0] / world.size());
  }
  std::ranges::sort(shares);
  return shares[shares.size() / 2];
}

double simulated_idle(const sp::PipelineSchedule& schedule) {
  const sp::PipelineTimeLine line = sp::simulate(schedule);
  double sum = 0;
  for (std::int32_t r = 0; r < schedule.ranks(); ++r) sum += line.idle_share(r);
  return sum / schedule.ranks();
}

}  // namespace

int main(int argc, char** argv) {
  Asked asked;
  sinew::bench::CommandLine command("Idle shares of pipelines, measured and simulated");
  command.option("--unit-us", asked.unit_us, "Of a forward pass", {.least = 1, .most = 1000000});
  command.option("--micro-batches", asked.micro_batches, "micro-batches of a step", {.least = 1, .most = 4096});
  command.option("--virtual-stages", asked.virtual_stages, "stages of a rank", {.least = 1, .most = 64});
  command.option("--bytes", asked.bytes, "Of a message", {.least = 1, .most = 1 << 30});
  command.option("--steps", asked.steps, "steps; the median is printed", {.least = 1, .most = 1000});
  command.flag("--thread", asked.thread, "Messages go on in a thread of their own");
  command.parse(argc, argv);
  sinew::WorldOptions options{};
  if (asked.thread) options.threads = sinew::Threads::Multiple;
  sinew::World world = sinew::World::from_environment(options);
  for (const sp::NamedGenerator& generator : sp::generators()) {
    const std::int32_t v = generator.virtual_stages(asked.virtual_stages);
    const sp::PipelineSchedule schedule = sp::with_messages(generator.make(world.size(), asked.micro_batches, v));
    const double measured = measured_idle(world, schedule, asked, std::chrono::microseconds(asked.unit_us) / v);
    const double simulated = simulated_idle(schedule);
    if (world.rank() == 0) {
      std::puts(sinew::json_object({{"schedule", generator.name},
                                    {"ranks", world.size()},
                                    {"micro_batches", asked.micro_batches},
                                    {"virtual_stages", v},
                                    {"measured", measured, 5},
                                    {"simulated", simulated, 5}})
                    .c_str());
    }
  }
  return 0;
}
