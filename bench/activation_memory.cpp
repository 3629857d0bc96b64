// The memory of activations of a transformer under policies, beside what is planned before its first pass. One line of
// JSON for each policy. The plan is what the modules say of their passes, and the room for arrays on their way.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sinew/collectives/world.hpp>
#include <sinew/parallel/compute/host_blas.hpp>
#include <sinew/parallel/modules/compose.hpp>
#include <sinew/parallel/modules/layers/attention_module.hpp>
#include <sinew/parallel/modules/layers/layer_norm.hpp>
#include <sinew/parallel/modules/layers/pointwise.hpp>
#include <sinew/parallel/modules/models/model.hpp>
#include <sinew/parallel/offload/file_store.hpp>
#include <sinew/topology/format/json/json_object.hpp>

namespace {

namespace sp = sinew::parallel;

constexpr std::int64_t kRows = 256, kWidth = 128, kInner = 4 * kWidth;
constexpr int kBlocks = 12;
constexpr std::size_t kBudget = std::size_t{256} << 10;

template <class M, class... Arguments>
sp::ModulePtr<float> made(Arguments&&... arguments) {
  return std::make_unique<M>(std::forward<Arguments>(arguments)...);
}

sp::ModulePtr<float> block(const sp::LayerGroup& group, const sp::ContextGroup& context, int number) {
  const std::string name = fmt::format("blocks.{}", number);
  const auto norm = [&](const char* which) {
    return made<sp::LayerNormModule<float>>(group,
                                            sp::LayerNormShape{.name = name + which, .rows = kRows, .width = kWidth});
  };
  const sp::AttentionShape attention{
      .name = name + ".attention", .width = kWidth, .heads = 4, .positions = sp::SequenceCut::zig_zag(kRows, 1)};
  const sp::LinearShape up{.name = name + ".up", .rows = kRows, .inputs = kWidth, .outputs = kInner};
  const sp::LinearShape down{.name = name + ".down", .rows = kRows, .inputs = kInner, .outputs = kWidth};
  return sp::unit<float>(
      name, sp::sequence<float>(
                sp::residual<float>(
                    sp::sequence<float>(norm(".norm1"), made<sp::AttentionModule<float>>(group, context, attention))),
                sp::residual<float>(sp::sequence<float>(norm(".norm2"), made<sp::ColumnModule<float>>(group, up),
                                                        made<sp::Pointwise<float>>(kRows * kInner, sp::gelu<float>()),
                                                        made<sp::RowModule<float>>(group, down)))));
}

struct Measured {
  std::size_t planned = 0, held = 0;  ///< bytes: as the modules say before any pass; of the pool after two steps
  double sum = 0;                     ///< of the input's gradients
};

Measured trained(sinew::World& world, const sp::Recomputation& recomputation, const sp::ActivationOffload& offload) {
  sp::HostBlas blas;
  sinew::Communicator none;
  sp::Mesh mesh(world.communicator(), sp::Factorisation({{"dp", 1}}));
  std::vector<sp::ModulePtr<float>> all;
  for (int b = 0; b < kBlocks; ++b) all.push_back(block({none, &blas}, {none, none}, b));
  sp::Model<float> model(mesh, std::make_unique<sp::Sequence<float>>(std::move(all)),
                         [&world](std::size_t bytes) { return world.allocate(bytes); },
                         {.row = sp::data_row("ddp", {"dp"}), .recomputation = recomputation, .offload = offload});
  const sp::ArrayCounts planned = most_of(model.module().forward_arrays(true), model.module().backward_arrays());
  Measured found{.planned = static_cast<std::size_t>(planned.elements()) * sizeof(float)};
  std::vector<float> x(static_cast<std::size_t>(kRows * kWidth)), out(x.size()), dx(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(0.37F * static_cast<float>(i));
  for (int step = 0; step < 2; ++step) {
    model.forward({}, x.data(), out.data());
    model.backward(out.data(), dx.data());
    model.data().finish_backward();
    model.data().updated();
  }
  found.held = model.held_bytes();
  for (const float d : dx) found.sum += static_cast<double>(d);
  return found;
}

}  // namespace

int main(int argc, char** argv) {
  auto world = sinew::World::from_environment();
  const std::string folder = argc > 1 ? argv[1] : ".";
  const auto to_file = [&] {
    return sp::ActivationOffload{
        .store = std::make_shared<sp::FileStore>(folder), .write_bytes = kBudget, .read_ahead_bytes = kBudget};
  };
  double expected = 0;
  const auto print = [&](const char* policy, sp::Recompute recompute, bool offloads) {
    const Measured found = trained(world, {recompute}, offloads ? to_file() : sp::ActivationOffload{});
    if (recompute == sp::Recompute::None && !offloads) expected = found.sum;
    // Arrays are on their way to the store in forward passes, and ahead of their use in backward passes.
    const std::size_t budgets = offloads ? kBudget : 0;
    std::puts(sinew::json_object({{"policy", policy},
                                  {"planned_bytes", found.planned + budgets},
                                  {"held_bytes", found.held},
                                  {"same", found.sum == expected}})
                  .c_str());
  };
  print("none", sp::Recompute::None, false);
  print("selective", sp::Recompute::Selective, false);
  print("full", sp::Recompute::Full, false);
  print("offload", sp::Recompute::None, true);
  print("selective offload", sp::Recompute::Selective, true);
}
