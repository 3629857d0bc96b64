// What data parallelism's communication takes of a step whose backward pass does nothing but hand over gradients of the
// given shapes: from the first gradient to the last sum, median of the steps, slowest rank, in microseconds.
// Try: sinew-run -n 2 gradient_sync --shapes bench/shapes/gpt2_124m.txt
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <optional>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <sinew/collectives/world.hpp>
#include <sinew/parallel/data_parallel/data_parallel.hpp>

#include "command_line.hpp"

namespace {

namespace sp = sinew::parallel;
using Clock = std::chrono::steady_clock;

/// A line for each parameter: its path and its elements.
std::vector<sp::DataParameter> read_shapes(const std::string& file) {
  std::ifstream in(file);
  if (!in) throw std::runtime_error("--shapes " + file + ": no such file, or it cannot be read");
  std::vector<sp::DataParameter> parameters;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with('#')) continue;
    sp::DataParameter p{.unit = "model"};
    std::istringstream(line) >> p.path >> p.elements;
    parameters.push_back(std::move(p));
  }
  return parameters;
}

double median(std::vector<double> v) {
  std::ranges::sort(v);
  return v[v.size() / 2];
}

class Bench {
 public:
  Bench(sinew::World& world, std::vector<sp::DataParameter> parameters, const std::string& row)
      : world_(world), mesh_(world.communicator(), sp::Factorisation({{"dp", world.size()}})) {
    std::vector<std::vector<float>> zeros;
    std::vector<sinew::ConstBuffer> values;
    for (const sp::DataParameter& p : parameters) zeros.emplace_back(static_cast<std::size_t>(p.elements));
    for (const auto& z : zeros)
      values.push_back({reinterpret_cast<const std::byte*>(z.data()), z.size() * sizeof(float)});
    data_.emplace(mesh_, std::move(parameters), values, sp::data_row(row, {"dp"}),
                  [&world](std::size_t bytes) { return world.allocate(bytes); });
  }

  double run(int steps) {
    for (int i = 0; i < 3; ++i) step();  // buckets are rebuilt, plans made
    std::vector<double> us;
    for (int i = 0; i < steps; ++i) us.push_back(step());
    return median(std::move(us));
  }

 private:
  double step() {
    const auto n = static_cast<std::int32_t>(data_->parameters().size());
    for (std::int32_t p = 0; p < n; ++p) {
      const sinew::Buffer g = data_->gradient(p);
      std::fill_n(reinterpret_cast<float*>(g.data), g.bytes / sizeof(float), 1.0F);
    }
    world_.communicator().barrier().get();
    const auto start = Clock::now();
    for (std::int32_t p = n; p-- > 0;) data_->gradient_ready(p);
    const std::vector<sp::OwnedPart> owned = data_->finish_backward();
    double us = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
    for (const sp::OwnedPart& part : owned) {
      if (*reinterpret_cast<const float*>(part.gradient.data) != 1.0F) throw std::runtime_error("a wrong sum");
    }
    data_->updated();
    world_.communicator().all_reduce(std::span(&us, 1), sinew::ReduceOp::Max).get();
    return us;
  }

  sinew::World& world_;
  sp::Mesh mesh_;
  std::optional<sp::DataParallel> data_;
};

}  // namespace

int main(int argc, char** argv) {
  std::string shapes, row = "ddp";
  int steps = 11;
  sinew::bench::CommandLine command("What the communication of a step's gradients takes.");
  command.option("--shapes", shapes, "a file with a path and elements on each line").required();
  command.option("--row", row, "ddp or zero1");
  command.option("--steps", steps, "steps to take the median of", sinew::bench::kPositive);
  command.parse(argc, argv);
  try {
    sinew::World world = sinew::World::from_environment();
    const double us = Bench(world, read_shapes(shapes), row).run(steps);
    if (world.rank() == 0) std::printf("%.1f\n", us);
  } catch (const std::exception& e) {
    std::cerr << "gradient_sync: " << e.what() << '\n';
    return 1;
  }
}
