// A training loop that is not sinew's, with its hooks: y = w2 tanh(w1 x), fitted to a wave by all ranks together.
// Try: sinew-run -n 4 build/release/bin/own_engine zero3      (ddp, zero1, zero2, zero3)
#include <cmath>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include <sinew/collectives/world.hpp>
#include <sinew/parallel/data_parallel/data_parallel.hpp>
#include <sinew/parallel/data_parallel/weighted_loss.hpp>
#include <sinew/parallel/optim/optimizer.hpp>

#include "usage.hpp"

namespace sp = sinew::parallel;

namespace {

constexpr int kHidden = 48, kSteps = 200, kBatch = 64;

// The engine: a unit per layer, gradients by hand. It knows sinew by the six calls that it makes while it goes.
struct Engine {
  sp::DataParallel& data;
  std::span<float> value(int p) { return data.parameter<float>(p); }
  std::span<float> gradient(int p) { return data.gradient<float>(p); }

  // Adds the gradients of the sum of squared errors; returns the sum.
  double step(const std::vector<float>& x, const std::vector<float>& target) {
    std::vector<float> hidden(x.size() * kHidden), off(x.size());
    data.before_forward(0);
    for (std::size_t s = 0; s < x.size(); ++s) {
      for (int h = 0; h < kHidden; ++h)
        hidden[s * kHidden + h] = std::tanh(value(0)[2 * h] * x[s] + value(0)[2 * h + 1]);
    }
    data.after_forward(0);

    data.before_forward(1);
    double loss = 0;
    for (std::size_t s = 0; s < x.size(); ++s) {
      float y = 0;
      for (int h = 0; h < kHidden; ++h) y += value(1)[h] * hidden[s * kHidden + h];
      off[s] = y - target[s];
      loss += off[s] * off[s];
    }
    data.after_forward(1);

    data.before_backward(1);
    std::vector<float> slope(hidden.size());
    for (std::size_t s = 0; s < x.size(); ++s) {
      for (int h = 0; h < kHidden; ++h) {
        gradient(1)[h] += 2 * off[s] * hidden[s * kHidden + h];
        slope[s * kHidden + h] = 2 * off[s] * value(1)[h] * (1 - hidden[s * kHidden + h] * hidden[s * kHidden + h]);
      }
    }
    data.gradient_ready(1);  // begins the exchange, while the engine goes on with the other layer
    data.after_backward(1);

    data.before_backward(0);
    for (std::size_t s = 0; s < x.size(); ++s) {
      for (int h = 0; h < kHidden; ++h) {
        gradient(0)[2 * h] += slope[s * kHidden + h] * x[s];
        gradient(0)[2 * h + 1] += slope[s * kHidden + h];
      }
    }
    data.gradient_ready(0);
    data.after_backward(0);
    return loss;
  }
};

std::vector<float> waves(int count, float step) {
  std::vector<float> v(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) v[static_cast<std::size_t>(i)] = std::sin(step * static_cast<float>(i + 1));
  return v;
}

}  // namespace

int main(int argc, char** argv) try {
  if (example::is_asked_for_usage(argc, argv, "own_engine [ddp|zero1|zero2|zero3]   with sinew-run -n RANKS before it"))
    return 0;
  if (argc > 2) throw sinew::Error(sinew::Code::InvalidArgument, "expected one ROW: ddp, zero1, zero2 or zero3");
  const std::string row = argc > 1 ? argv[1] : "ddp";
  sinew::WorldOptions options{};
  options.threads = sinew::Threads::Multiple;  // exchanges go on while the engine computes
  auto world = sinew::World::from_environment(options);
  sp::Mesh mesh(world.communicator(), sp::Factorisation({{"dp", world.size()}}));

  const std::vector<float> w1 = waves(2 * kHidden, 1.7F), w2 = waves(kHidden, 2.3F);
  const auto bytes_of = [](const std::vector<float>& v) {
    return sinew::ConstBuffer(reinterpret_cast<const std::byte*>(v.data()), v.size() * sizeof(float));
  };
  const std::vector<sinew::ConstBuffer> values = {bytes_of(w1), bytes_of(w2)};
  sp::DataParallelOptions how{};
  how.gradients = sinew::ReduceOp::Sum;  // of the sum over samples: the mean is taken of all of them, below
  sp::DataParallel data(
      mesh,
      {{.path = "first.weight", .elements = 2 * kHidden, .unit = "first"},
       {.path = "second.weight", .elements = kHidden, .unit = "second"}},
      values, sp::data_row(row, {"dp"}), [&](std::size_t bytes) { return world.allocate(bytes); }, how);
  sp::Optimizer optimizer(data.memory(), sp::AdamOptions{.rate = 0.01});
  Engine engine{data};

  for (int step = 0; step < kSteps; ++step) {
    std::vector<float> x, target;
    for (int s = world.rank(); s < kBatch; s += world.size()) {  // the batch is the same however many ranks share it
      x.push_back(static_cast<float>((step * 7 + s) % kBatch) * 4.0F / kBatch - 2);
      target.push_back(std::sin(2 * x.back()));
    }
    const double sum = engine.step(x, target);
    const auto owned = data.finish_backward();
    const sp::WeightedLoss loss = sp::total(world.communicator(), {sum, static_cast<double>(x.size())});
    optimizer.update(owned, loss.scale());
    data.updated();
    if (world.rank() == 0 && (step % 50 == 0 || step + 1 == kSteps))
      std::printf("step %3d loss %.6f\n", step, loss.mean());
  }
  return 0;
} catch (const sinew::Error& e) {
  std::fprintf(stderr, "own_engine: %s\n", e.what());
  return e.code() == sinew::Code::InvalidArgument ? 2 : 1;
}
