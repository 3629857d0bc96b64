// Measures how much longer the steps of a training take during an asynchronous checkpoint, and how long a synchronous
// one takes. A turn has steps without a save, a synchronous save, and an asynchronous save with the steps during it. A
// step computes, sums gradients, and updates by Adam. The stall is the median over the turns of the step that takes
// longest by this median, less the median of a step without a save. The first of these steps has the call of save() and
// the wait for the copy. The next ones run beside the thread that writes.
// Try: sinew-run -n 2 async_checkpoint --folder /tmp/checkpoints
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sinew/collectives/world.hpp>
#include <sinew/parallel/checkpoint/async_checkpointer.hpp>
#include <sinew/parallel/checkpoint/folder.hpp>
#include <sinew/parallel/checkpoint/save.hpp>
#include <sinew/parallel/checkpoint/training_parts.hpp>
#include <sinew/topology/format/json/json_object.hpp>

#include "command_line.hpp"

namespace {

namespace sp = sinew::parallel;
using BenchClock = std::chrono::steady_clock;

double seconds_since(BenchClock::time_point start) {
  return std::chrono::duration<double>(BenchClock::now() - start).count();
}

double median(std::vector<double> v) {
  std::ranges::sort(v);
  return v[v.size() / 2];
}

class Training {
 public:
  Training(sinew::World& world, const std::string& row, std::int64_t elements, double compute_s)
      : world_(world), mesh_(world.communicator(), sp::Factorisation({{"dp", world.size()}})) {
    std::vector<sp::DataParameter> parameters;
    constexpr std::int64_t kParameters = 16;
    for (std::int64_t p = 0; p < kParameters; ++p) {
      const std::string name = "p" + std::to_string(p);
      parameters.push_back({.path = name, .elements = elements / kParameters, .unit = name});
    }
    const auto initial = [](const sp::InitialPart& part) { part.fill([](std::int64_t) { return 0.5; }); };
    data_.emplace(
        mesh_, std::move(parameters), initial, sp::data_row(row, {"dp"}),
        [&world](std::size_t bytes) { return world.allocate(bytes); },
        sp::DataParallelOptions{.gradients = sinew::ReduceOp::Sum, .unused_are_zero = true});
    adam_.emplace(data_->memory(), sp::AdamOptions{});
    for (work_ = 1 << 16; compute_time() < compute_s / 8;) work_ *= 2;
    work_ = static_cast<std::int64_t>(static_cast<double>(work_) * compute_s / compute_time());
    std::array<std::int64_t, 1> least{work_};
    world_.communicator().all_reduce(least, sinew::ReduceOp::Min).get();
    work_ = least[0];
  }

  /// The time of the slowest rank, from a barrier on.
  template <class F>
  double timed(const F& f) {
    world_.communicator().barrier().get();
    const auto start = BenchClock::now();
    f();
    std::array<double, 1> s{seconds_since(start)};
    world_.communicator().all_reduce(s, sinew::ReduceOp::Max).get();
    return s[0];
  }

  void step() {
    const auto units = static_cast<std::int32_t>(data_->parameters().size());
    for (std::int32_t u = 0; u < units; ++u) data_->before_forward(u), data_->after_forward(u);
    compute();
    for (std::int32_t u = units; u-- > 0;) data_->before_backward(u), data_->after_backward(u);
    adam_->update(data_->finish_backward());
    data_->updated();
  }

  sp::DataParallel& data() { return *data_; }
  std::vector<sp::CheckpointPart> parts() { return sp::parts_to_save(*data_, *adam_); }

 private:
  void compute() {
    double x = sum_;
    for (std::int64_t i = 0; i < work_; ++i) x = x * 0.999999 + 1e-6;
    sum_ = x;
  }
  double compute_time() {
    const auto start = BenchClock::now();
    compute();
    return seconds_since(start);
  }

  sinew::World& world_;
  sp::Mesh mesh_;
  std::optional<sp::DataParallel> data_;
  std::optional<sp::Optimizer> adam_;
  std::int64_t work_ = 0;
  volatile double sum_ = 0;
};

struct Options {
  std::string folder, row = "zero1";
  int turns = 5, mib = 192, niceness = 10;
  double compute_ms = 100;
};

void run(sinew::World& world, const Options& o) {
  constexpr int kSteps = 12;
  Training training(world, o.row, (std::int64_t{o.mib} << 20) / 12, o.compute_ms / 1e3);  // 4 bytes, and 8 of Adam
  sp::AsyncCheckpointer checkpointer(world.communicator(), o.folder, {.niceness = o.niceness});
  checkpointer.follow(training.data());
  training.step(), training.step();
  checkpointer.save(training.parts(), {.step = 0});  // the memory of the copy is there from now on
  training.step();
  checkpointer.finish();
  std::vector<double> plain, sync, blocked, all;
  std::vector<std::vector<double>> with(kSteps);
  int in_flight = 0;
  for (int turn = 1; turn <= o.turns; ++turn) {
    for (int s = 0; s < kSteps; ++s) plain.push_back(training.timed([&] { training.step(); }));
    sync.push_back(
        training.timed([&] { sp::save_checkpoint(world.communicator(), o.folder, training.parts(), {.step = 1}); }));
    training.step();
    double sum = 0;
    for (int s = 0; s < kSteps; ++s) {
      const double taken = training.timed([&] {
        if (s == 0) checkpointer.save(training.parts(), {.step = 2});
        training.step();
      });
      with[static_cast<std::size_t>(s)].push_back(taken);
      sum += taken;
      if (!checkpointer.poll()) in_flight = std::max(in_flight, s + 1);
    }
    all.push_back(sum);
    blocked.push_back(std::chrono::duration<double>(checkpointer.stalled()).count());
    checkpointer.finish();
  }
  const double step_s = median(plain), sync_s = median(sync);
  double stall_s = 0;
  for (const std::vector<double>& step : with) stall_s = std::max(stall_s, median(step) - step_s);
  if (world.rank() != 0) return;
  std::puts(sinew::json_object({{"row", o.row},
                                {"mib", o.mib},
                                {"step_s", step_s, 4},
                                {"sync_s", sync_s, 4},
                                {"stall_s", stall_s, 4},
                                {"blocked_s", median(blocked), 4},
                                {"all_steps_s", median(all) - kSteps * step_s, 4},
                                {"steps_in_flight", in_flight},
                                {"stall_of_sync", stall_s / sync_s, 3}})
                .c_str());
}

}  // namespace

int main(int argc, char** argv) try {
  Options o;
  sinew::bench::CommandLine command("What an asynchronous checkpoint adds to a step, beside a synchronous one");
  command.option("--folder", o.folder, "where checkpoints are saved").required();
  command.word("--row", o.row, "of data parallelism", {"ddp", "zero1", "zero2", "zero3"});
  command.option("--mib", o.mib, "bytes of a checkpoint", sinew::bench::kPositive);
  command.option("--turns", o.turns, "turns; medians of them are printed", sinew::bench::kPositive);
  command.option("--compute-ms", o.compute_ms, "computation of a step", sinew::bench::kPositive);
  command.option("--niceness", o.niceness, "of the thread that writes", {.least = 0, .most = 19});
  command.parse(argc, argv);
  auto world = sinew::World::from_environment();
  run(world, o);
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "async_checkpoint: %s\n", e.what());
  return 1;
}
