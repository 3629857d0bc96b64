// Mamba-2 over sequences that ranks share (context parallelism), with heads that ranks share (tensor parallelism).
// Try: sinew-run -n 4 build/release/bin/modules_mamba      any number of ranks prints the same losses
#include <cstdio>
#include <exception>
#include <memory>
#include <vector>

#include <sinew/collectives/world.hpp>
#include <sinew/parallel/compute/host_blas.hpp>
#include <sinew/parallel/data_parallel/weighted_loss.hpp>
#include <sinew/parallel/modules/layers/state_space_module.hpp>
#include <sinew/parallel/modules/models/model.hpp>
#include <sinew/parallel/optim/optimizer.hpp>

namespace sp = sinew::parallel;

constexpr std::int64_t kLength = 30, kWidth = 16;

int main() try {
  auto world = sinew::World::from_environment();
  const int tp = world.size() % 2 == 0 ? 2 : 1;
  sp::Mesh mesh(world.communicator(), sp::Factorisation({{"tp", tp}, {"cp", world.size() / tp}}));
  sp::HostBlas blas;
  const auto cut = sp::SequenceCut::zig_zag(kLength, world.size() / tp);

  // 5 heads share one group of b and c. With two ranks along tp, one has 3 heads, and the other one has 2.
  auto layer = std::make_unique<sp::StateSpaceModule<double>>(
      sp::LayerGroup{mesh.along("tp"), &blas}, mesh.along("cp"),
      sp::StateSpaceShape{
          .name = "mamba", .width = kWidth, .head_width = 6, .heads = 5, .groups = 1, .states = 8, .positions = cut},
      sp::ScanOptions{.deviation = 0.2, .out_deviation = 0.2});
  sp::Model<double> model(
      mesh, std::move(layer), [&](auto bytes) { return world.allocate(bytes); },
      {.row = sp::data_row("zero1", {"cp"}), .parameter = sinew::DType::F64, .gradient = sinew::DType::F64});
  sp::Optimizer optimizer(model.data().memory(), sp::AdamOptions{.rate = 0.01});

  // It learns to write, at each position, the values of the position before.
  const sp::KeyedRandom random(1, "positions");
  const auto value = [&](std::int64_t at, std::int64_t i) {
    return random.uniform(static_cast<std::uint64_t>((at + 1) * kWidth + i)) - 0.5;
  };
  std::vector<double> x, target;
  for (const std::int64_t at : cut.positions(mesh.index("cp"))) {
    for (std::int64_t i = 0; i < kWidth; ++i) x.push_back(value(at, i)), target.push_back(value(at - 1, i));
  }
  std::vector<double> out(x.size());
  for (int step = 0; step < 100; ++step) {
    model.forward({}, x.data(), out.data());
    sp::WeightedLoss mine{.sum = 0, .weight = static_cast<double>(out.size())};
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] -= target[i];
      mine.sum += out[i] * out[i];
      out[i] *= 2;
    }
    model.backward(out.data(), nullptr);
    const sp::WeightedLoss loss = sp::total(mesh.along("cp"), mine);
    optimizer.update(model.data().finish_backward(), loss.scale());
    model.data().updated();
    if (world.rank() == 0 && step % 33 == 0) std::printf("step %d loss %.10f\n", step, loss.mean());
  }
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "modules_mamba: %s\n", e.what());
  return 1;
}
