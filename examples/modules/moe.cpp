// A mixture of experts: every rank has other rows and other experts, and rows go to their experts and back.
// Try: sinew-run -n 4 build/release/bin/modules_moe      1, 2, 3, 4 or 6 ranks print the same losses
#include <cstdio>
#include <exception>
#include <memory>
#include <stdexcept>
#include <vector>

#include <sinew/collectives/world.hpp>
#include <sinew/parallel/compute/host_blas.hpp>
#include <sinew/parallel/data_parallel/weighted_loss.hpp>
#include <sinew/parallel/modules/compose.hpp>
#include <sinew/parallel/modules/layers/experts_module.hpp>
#include <sinew/parallel/modules/models/model.hpp>
#include <sinew/parallel/optim/optimizer.hpp>

namespace sp = sinew::parallel;

constexpr int kBatch = 24, kWidth = 12, kExperts = 6;

int main() try {
  auto world = sinew::World::from_environment();
  if (kBatch % world.size() != 0) throw std::invalid_argument("expected a number of ranks that divides 24");
  const int rows = kBatch / world.size();
  sp::Mesh mesh(world.communicator(), sp::Factorisation({{"dp", world.size()}}));
  sp::Mesh expert_mesh(world.communicator(), sp::Factorisation({{"ep", world.size()}, {"edp", 1}}));  // the same ranks
  sp::HostBlas blas;
  sinew::Communicator alone;

  auto experts = std::make_unique<sp::ExpertsModule<double>>(sp::LayerGroup{alone, &blas},
                                                             sp::ExpertRanks{.experts = &expert_mesh.along("ep")},
                                                             sp::ExpertsShape{.name = "experts",
                                                                              .rows = rows,
                                                                              .width = kWidth,
                                                                              .inner = 32,
                                                                              .experts = kExperts,
                                                                              .top_k = 2,
                                                                              .deviation = 0.3});
  sp::Model<double> model(mesh, sp::residual<double>(std::move(experts)),
                          [&](auto bytes) { return world.allocate(bytes); },
                          {.row = sp::data_row("ddp", {"dp"}),  // of the router
                           .parameter = sinew::DType::F64,
                           .gradient = sinew::DType::F64,
                           .expert_mesh = &expert_mesh,
                           .expert_row = sp::data_row("ddp", {"edp"})});
  sp::Optimizer router(model.data().memory(), sp::AdamOptions{.rate = 0.01});
  sp::Optimizer of_experts(model.experts().memory(), sp::AdamOptions{.rate = 0.01});

  // Each row is to become the square of its elements.
  const sp::KeyedRandom random(1, "rows");
  std::vector<double> x(static_cast<std::size_t>(rows * kWidth)), out(x.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = 2 * random.uniform(static_cast<std::uint64_t>(world.rank()) * x.size() + i) - 1;
  for (int step = 0; step < 100; ++step) {
    model.forward({}, x.data(), out.data());
    sp::WeightedLoss mine{.sum = 0, .weight = static_cast<double>(out.size())};
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] -= x[i] * x[i];
      mine.sum += out[i] * out[i];
      out[i] *= 2;
    }
    model.backward(out.data(), nullptr);
    const sp::WeightedLoss loss = sp::total(world.communicator(), mine);
    router.update(model.data().finish_backward(), loss.scale());
    of_experts.update(model.experts().finish_backward(), loss.scale());
    model.data().updated();
    model.experts().updated();
    if (world.rank() == 0 && step % 33 == 0) std::printf("step %d loss %.10f\n", step, loss.mean());
  }
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "modules_moe: %s\n", e.what());
  return 1;
}
