// Layers cut over neighbours, and what each rank has of them sharded among copies (FSDP x TP): parameters are gathered
// block by block, and freed behind each block.
// Try: sinew-run -n 4 build/release/bin/modules_fsdp_tp 2      (TP, which divides the ranks)
#include <cstdio>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <sinew/collectives/world.hpp>
#include <sinew/parallel/compute/host_blas.hpp>
#include <sinew/parallel/data_parallel/weighted_loss.hpp>
#include <sinew/parallel/modules/compose.hpp>
#include <sinew/parallel/modules/layers/linear_module.hpp>
#include <sinew/parallel/modules/layers/pointwise.hpp>
#include <sinew/parallel/modules/models/model.hpp>
#include <sinew/parallel/optim/optimizer.hpp>

namespace sp = sinew::parallel;

constexpr int kBlocks = 3, kBatch = 24, kWidth = 16, kInner = 40;

int main(int argc, char** argv) try {
  const int tp = argc > 1 ? std::stoi(argv[1]) : 1;
  auto world = sinew::World::from_environment();
  if (tp < 1 || world.size() % tp != 0 || kBatch % (world.size() / tp) != 0)
    throw std::invalid_argument("expected TP that divides the ranks, and copies whose number divides 24");
  const int dp = world.size() / tp, rows = kBatch / dp;
  sp::Mesh mesh(world.communicator(), sp::Factorisation({{"tp", tp}, {"dp", dp}}));
  sp::HostBlas blas;
  const sp::LayerGroup group{mesh.along("tp"), &blas};

  std::vector<sp::ModulePtr<double>> blocks;
  for (int b = 0; b < kBlocks; ++b) {
    const std::string name = "block" + std::to_string(b);
    auto up = std::make_unique<sp::ColumnModule<double>>(
        group, sp::LinearShape{.name = name + ".up", .rows = rows, .inputs = kWidth, .outputs = kInner});
    auto bend = std::make_unique<sp::Pointwise<double>>(up->out_elements(), sp::gelu<double>());
    auto down = std::make_unique<sp::RowModule<double>>(
        group, sp::LinearShape{.name = name + ".down", .rows = rows, .inputs = kInner, .outputs = kWidth});
    // A unit is gathered as one. Within it the backward pass computes the forward pass again, and keeps less.
    blocks.push_back(sp::unit<double>(name, sp::recomputed<double>(sp::residual<double>(sp::sequence<double>(
                                                std::move(up), std::move(bend), std::move(down))))));
  }
  sp::Model<double> model(
      mesh, std::make_unique<sp::Sequence<double>>(std::move(blocks)),
      [&](auto bytes) { return world.allocate(bytes); },
      {.row = sp::data_row("zero3", {"dp"}), .parameter = sinew::DType::F64, .gradient = sinew::DType::F64});
  sp::Optimizer optimizer(model.data().memory(), sp::AdamOptions{.rate = 0.01});

  const sp::KeyedRandom random(1, "rows");
  std::vector<double> x(static_cast<std::size_t>(rows * kWidth)), out(x.size()), target(x.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = random.uniform(static_cast<std::uint64_t>(mesh.index("dp")) * x.size() + i) - 0.5;
  for (std::size_t i = 0; i < x.size(); ++i) target[i] = x[i / kWidth * kWidth + (i + 1) % kWidth];
  for (int step = 0; step < 100; ++step) {
    model.forward({}, x.data(), out.data());
    sp::WeightedLoss mine{.sum = 0, .weight = static_cast<double>(out.size())};
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] -= target[i];
      mine.sum += out[i] * out[i];
      out[i] *= 2;
    }
    model.backward(out.data(), nullptr);
    const sp::WeightedLoss loss = sp::total(mesh.along("dp"), mine);
    optimizer.update(model.data().finish_backward(), loss.scale());
    model.data().updated();
    if (world.rank() == 0 && step % 33 == 0) std::printf("step %d loss %.10f\n", step, loss.mean());
  }
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "modules_fsdp_tp: %s\n", e.what());
  return 1;
}
