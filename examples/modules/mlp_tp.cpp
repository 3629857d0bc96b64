// A multilayer perceptron whose layers are cut over all ranks (tensor parallelism).
// Try: sinew-run -n 4 build/release/bin/modules_mlp_tp      any number of ranks prints the same losses
#include <cstdio>
#include <exception>
#include <memory>
#include <vector>

#include <sinew/collectives/world.hpp>
#include <sinew/parallel/compute/host_blas.hpp>
#include <sinew/parallel/modules/compose.hpp>
#include <sinew/parallel/modules/layers/linear_module.hpp>
#include <sinew/parallel/modules/layers/pointwise.hpp>
#include <sinew/parallel/modules/models/model.hpp>
#include <sinew/parallel/optim/optimizer.hpp>

namespace sp = sinew::parallel;

constexpr std::int64_t kRows = 32, kWidth = 16, kInner = 40;

int main() try {
  auto world = sinew::World::from_environment();
  sp::Mesh mesh(world.communicator(), sp::Factorisation({{"tp", world.size()}, {"dp", 1}}));
  sp::HostBlas blas;
  const sp::LayerGroup group{mesh.along("tp"), &blas};

  auto up = std::make_unique<sp::ColumnModule<double>>(
      group, sp::LinearShape{.name = "up", .rows = kRows, .inputs = kWidth, .outputs = kInner});
  auto bend = std::make_unique<sp::Pointwise<double>>(up->out_elements(), sp::hyperbolic_tangent<double>());
  auto down = std::make_unique<sp::RowModule<double>>(
      group, sp::LinearShape{.name = "down", .rows = kRows, .inputs = kInner, .outputs = kWidth});
  sp::Model<double> model(
      mesh, sp::sequence<double>(std::move(up), std::move(bend), std::move(down)),
      [&](auto bytes) { return world.allocate(bytes); },
      {.row = sp::data_row("ddp", {"dp"}), .parameter = sinew::DType::F64, .gradient = sinew::DType::F64});
  sp::Optimizer optimizer(model.data().memory(), sp::AdamOptions{.rate = 0.01});

  // It learns to turn each row by one place.
  const sp::KeyedRandom random(1, "rows");
  std::vector<double> x(kRows * kWidth), target(x.size()), out(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = random.uniform(i) - 0.5;
  for (std::size_t i = 0; i < x.size(); ++i) target[i] = x[i / kWidth * kWidth + (i + 1) % kWidth];
  for (int step = 0; step < 100; ++step) {
    model.forward({}, x.data(), out.data());
    double loss = 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
      const double off = out[i] - target[i];
      loss += off * off;
      out[i] = 2 * off / static_cast<double>(out.size());
    }
    model.backward(out.data(), nullptr);
    optimizer.update(model.data().finish_backward());
    model.data().updated();
    if (world.rank() == 0 && step % 33 == 0)
      std::printf("step %d loss %.10f\n", step, loss / static_cast<double>(out.size()));
  }
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "modules_mlp_tp: %s\n", e.what());
  return 1;
}
