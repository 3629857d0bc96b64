// How much of a step's communication hides behind its computation. Four figures of one process, medians: computing
// alone, communicating alone, both at once, one after the other. Try, on two hosts: overlap --mib 256 --ratio 0.7
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sinew/collectives/world.hpp>
#include <sinew/parallel/data_parallel/data_parallel.hpp>
#include <sinew/topology/format/json/json_object.hpp>

#include "command_line.hpp"

namespace {

namespace sp = sinew::parallel;
using Clock = std::chrono::steady_clock;

struct Options {
  std::string row = "ddp";
  int mib = 256, layers = 64, steps = 5, prefetch_mib = 0;
  double ratio = 0.7, forward = 0;
};

/// Arithmetic that stays in the first cache, as many rounds as are asked for; one piece of code whoever asks.
class Computation {
 public:
  [[gnu::noinline]] void run(double rounds) {
    for (auto left = static_cast<long>(rounds); left > 0; --left) {
      for (float& x : values_) x = x * 0.999F + 0.001F;
    }
    sink_ = values_[7];
  }
  /// Rounds in a second, of a run of half a second.
  double rate() {
    double rounds = 1000;
    for (;;) {
      const auto start = Clock::now();
      run(rounds);
      const double s = std::chrono::duration<double>(Clock::now() - start).count();
      if (s > 0.5) return rounds / s;
      rounds *= 2;
    }
  }

 private:
  std::vector<float> values_ = std::vector<float>(2048, 0.5F);
  volatile float sink_ = 0;
};

double median(std::vector<double> v) {
  std::ranges::sort(v);
  return v[v.size() / 2];
}

class Bench {
 public:
  Bench(sinew::World& world, const Options& options)
      : world_(world), options_(options), mesh_(world.communicator(), sp::Factorisation({{"dp", world.size()}})) {
    const std::int64_t elements = (std::int64_t{options.mib} << 18) / options.layers;
    std::vector<sp::DataParameter> parameters;
    for (int i = 0; i < options.layers; ++i) {
      const std::string unit = std::to_string(i);
      parameters.push_back({.path = std::string("layers.") + unit, .elements = elements, .unit = unit});
    }
    const std::vector<float> zeros(static_cast<std::size_t>(elements));
    const std::vector<sinew::ConstBuffer> values(
        parameters.size(), {reinterpret_cast<const std::byte*>(zeros.data()), zeros.size() * sizeof(float)});
    sp::DataParallelOptions how{};
    how.step.gathered_bytes = std::int64_t{options.prefetch_mib} << 20;
    data_.emplace(
        mesh_, std::move(parameters), values, sp::data_row(options.row, {"dp"}),
        [&world](std::size_t bytes) { return world.allocate(bytes); }, how);
  }

  /// In turns, as a machine's speed changes meanwhile.
  void run() {
    step(0, false);  // buckets are rebuilt, connections made
    const double wanted = slowest([&] { step(0, false); }) / options_.ratio;
    double rounds = computation_.rate() * wanted / options_.layers;
    std::vector<double> compute, communication, overlapped, serial, over_longer;
    for (int turn = 0; turn < options_.steps; ++turn) {
      compute.push_back(slowest([&] {
        for (int i = 0; i < options_.layers; ++i) computation_.run(rounds);
      }));
      overlapped.push_back(slowest([&] { step(rounds, false); }));
      communication.push_back(slowest([&] { step(0, false); }));
      serial.push_back(slowest([&] { step(rounds, true); }));
      over_longer.push_back(overlapped.back() / std::max(compute.back(), communication.back()));
      rounds *= wanted / compute.back();  // the ratio stays what was asked for
    }
    if (world_.rank() != 0) return;
    std::puts(sinew::json_object({{"row", options_.row},
                                  {"mib", options_.mib},
                                  {"compute_s", median(compute), 4},
                                  {"communication_s", median(communication), 4},
                                  {"overlapped_s", median(overlapped), 4},
                                  {"serial_s", median(serial), 4},
                                  {"over_longer", median(over_longer), 4},
                                  {"underway_bytes", data_->held().most_of(sp::Purpose::Underway)}})
                  .c_str());
  }

 private:
  /// `rounds` of computing for each layer, both passes together: where they belong, or all before anything else.
  void step(double rounds, bool at_once) {
    const double forward = at_once ? 0 : rounds * options_.forward;
    const double backward = at_once ? 0 : rounds - forward;
    for (int i = 0; at_once && i < options_.layers; ++i) computation_.run(rounds);
    for (int u = 0; u < options_.layers; ++u) {
      data_->before_forward(u);
      computation_.run(forward);
      data_->after_forward(u);
    }
    for (int i = options_.layers; i-- > 0;) {
      data_->before_backward(i);
      computation_.run(backward);
      data_->gradient(i).data[0] = {};
      data_->gradient_ready(i);
      data_->after_backward(i);
    }
    (void)data_->finish_backward();
    data_->updated();
  }

  /// Of the ranks; all begin together.
  template <class F>
  double slowest(const F& f) {
    world_.communicator().barrier().get();
    const auto start = Clock::now();
    f();
    double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    world_.communicator().all_reduce(std::span(&seconds, 1), sinew::ReduceOp::Max).get();
    return seconds;
  }

  sinew::World& world_;
  Options options_;
  sp::Mesh mesh_;
  std::optional<sp::DataParallel> data_;
  Computation computation_;
};

}  // namespace

int main(int argc, char** argv) try {
  Options options;
  sinew::bench::CommandLine command("A step's communication beside its computation");
  command.option("--row", options.row, "ddp, zero1, zero2, zero3");
  command.option("--mib", options.mib, "gradients in all, MiB", sinew::bench::kPositive);
  command.option("--layers", options.layers, "parameters, one per unit", sinew::bench::kPositive);
  command.option("--ratio", options.ratio, "communication over computation", {.least = 1e-3});
  command.option("--forward", options.forward, "the forward pass's part of the computation",
                 {.least = 0.0, .most = 1.0});
  command.option("--prefetch", options.prefetch_mib, "gathered ahead at most, MiB; 0: two layers, twice", {.least = 0});
  command.option("--steps", options.steps, "turns", sinew::bench::kPositive);
  command.parse(argc, argv);
  sinew::WorldOptions how{};
  how.threads = sinew::Threads::Multiple;
  auto world = sinew::World::from_environment(how);
  Bench(world, options).run();
  return 0;
} catch (const sinew::Error& e) {
  std::fprintf(stderr, "overlap: %s\n", e.what());
  return e.code() == sinew::Code::InvalidArgument ? 2 : 1;
}
