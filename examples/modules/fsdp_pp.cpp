// A stack of layers in the stages of a pipeline, with parameters that copies of a stage shard among them (FSDP x PP).
// Each layer is a stage. The schedule gathers, frees and sums stages while others compute, within a budget of bytes.
// Try: sinew-run -n 4 build/release/bin/modules_fsdp_pp 2            (PP: 1, 2 or 4 ranks, which divide all ranks)
//      sinew-run -n 4 build/release/bin/modules_fsdp_pp 2 5000       (BUDGET: too little for two gathered stages)
#include <algorithm>
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
#include <sinew/parallel/modules/models/pipelined_model.hpp>
#include <sinew/parallel/optim/optimizer.hpp>
#include <sinew/parallel/pipeline/generators/generators.hpp>
#include <sinew/parallel/pipeline/passes/passes.hpp>

namespace sp = sinew::parallel;

constexpr int kLayers = 4, kBatch = 32, kMicroBatches = 4, kWidth = 16;

int main(int argc, char** argv) try {
  const int pp = argc > 1 ? std::stoi(argv[1]) : 2;
  const std::int64_t budget = argc > 2 ? std::stoll(argv[2]) : 0;
  auto world = sinew::World::from_environment();
  const int dp = world.size() / std::max(pp, 1), rows = kBatch / std::max(dp, 1) / kMicroBatches;
  if (pp < 1 || kLayers % pp != 0 || dp * pp != world.size() || kBatch % (dp * kMicroBatches) != 0)
    throw std::invalid_argument("expected PP of 1, 2 or 4 that divides the ranks, and 1, 2, 4 or 8 copies");
  sp::Mesh mesh(world.communicator(), sp::Factorisation({{"dp", dp}, {"pp", pp}}));
  sp::HostBlas blas;
  sinew::Communicator alone;

  // With all microbatches in turn, a stage is needed twice in a step: forward and backward.
  const sp::PipelineSchedule schedule = sp::with_messages(sp::looped_breadth_first(pp, kMicroBatches, kLayers / pp));
  std::vector<sp::ModulePtr<double>> stages;  // of this rank
  for (int l = 0; l < kLayers; ++l) {
    if (schedule.rank_of[static_cast<std::size_t>(l)] != mesh.index("pp")) continue;
    const sp::LinearShape shape{.name = std::to_string(l), .rows = rows, .inputs = kWidth, .outputs = kWidth};
    stages.push_back(sp::residual<double>(
        sp::sequence<double>(std::make_unique<sp::ColumnModule<double>>(sp::LayerGroup{alone, &blas}, shape),
                             std::make_unique<sp::Pointwise<double>>(rows * kWidth, sp::gelu<double>()))));
  }

  // Each row is to become its own mirror image.
  const sp::KeyedRandom random(1, "rows");
  const auto value = [&](int micro_batch, int k) {
    const int row = (mesh.index("dp") * kMicroBatches + micro_batch) * rows + k / kWidth;
    return random.uniform(static_cast<std::uint64_t>(row * kWidth + k % kWidth)) - 0.5;
  };
  sp::WeightedLoss mine;
  const sp::PipelineEnds<double> ends{.input =
                                          [&](std::int32_t m, double* x) {
                                            for (int k = 0; k < rows * kWidth; ++k) x[k] = value(m, k);
                                          },
                                      .loss =
                                          [&](std::int32_t m, double* out) {
                                            for (int k = 0; k < rows * kWidth; ++k) {
                                              out[k] -= value(m, k / kWidth * kWidth + kWidth - 1 - k % kWidth);
                                              mine += {out[k] * out[k], 1};
                                              out[k] *= 2;
                                            }
                                          }};
  sp::ModelOptions options{.row = sp::data_row("zero3", {"dp"}), .parameter = sinew::DType::F64, .spread = "pp"};
  options.data.step.gathered_bytes = budget;
  sp::PipelinedModel<double> model(
      mesh, mesh.along("pp"), schedule, std::move(stages), ends, [&](auto bytes) { return world.allocate(bytes); },
      options);
  if (world.rank() == 0) std::fprintf(stderr, "%s\n", model.why().c_str());
  sp::Optimizer optimizer(model.data().memory(), sp::AdamOptions{.rate = 0.01});

  for (int step = 0; step < 100; ++step) {
    mine = {};
    model.step();
    const auto owned = model.data().finish_backward();
    const sp::WeightedLoss loss = sp::total(mesh.along("dp"), sp::total(mesh.along("pp"), mine));
    optimizer.update(owned, loss.scale());
    model.data().updated();
    if (world.rank() == 0 && step % 33 == 0) std::printf("step %d loss %.10f\n", step, loss.mean());
  }
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "modules_fsdp_pp: %s\n", e.what());
  return 1;
}
