#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sinew/parallel/compute/host_blas.hpp>
#include <sinew/parallel/modules/compose.hpp>
#include <sinew/parallel/modules/layers/attention_module.hpp>
#include <sinew/parallel/modules/layers/experts_module.hpp>
#include <sinew/parallel/modules/layers/layer_norm.hpp>
#include <sinew/parallel/modules/layers/pointwise.hpp>
#include <sinew/parallel/modules/models/model.hpp>
#include <sinew/parallel/offload/file_store.hpp>
#include <sinew/parallel/tensor/dropout.hpp>
#include <support/worlds.hpp>

namespace sinew::parallel::test {

inline constexpr std::int64_t kRows = 24, kWidth = 16, kInner = 64;
inline constexpr int kBlocks = 6;

template <class M, class... Arguments>
ModulePtr<float> made(Arguments&&... arguments) {
  return std::make_unique<M>(std::forward<Arguments>(arguments)...);
}

/// Dropout of the elements' places in a step. It keeps nothing, and its backward pass does not read its input.
class DropoutLayer final : public Module<float> {
 public:
  DropoutLayer(const std::string& name, std::int64_t columns) : dropout_(7, name, 0.25), columns_(columns) {}
  std::int64_t in_elements() const override { return kRows * columns_; }
  std::int64_t out_elements() const override { return in_elements(); }
  void declare(ParameterList& /*list*/) override {}
  bool needs_input() const override { return false; }
  bool can_remake() const override { return true; }
  void forward(Pass<float>& /*pass*/, const float* x, Kept<float>& /*kept*/, float* out) override { drop(x, out); }
  void input_gradient(Pass<float>& /*pass*/, const float* /*x*/, Kept<float>& /*kept*/, const float* dout,
                      float* dx) override {
    if (dx != nullptr) drop(dout, dx);
  }
  void weight_gradient(Pass<float>& /*pass*/, const float* /*x*/, Kept<float>& /*kept*/,
                       const float* /*dout*/) override {}

 private:
  void drop(const float* from, float* to) const {
    std::copy_n(from, in_elements(), to);
    dropout_.apply(to, Box{{0, 0}, {kRows, columns_}}, columns_, 3);
  }

  Dropout dropout_;
  std::int64_t columns_;
};

/// Counts the forward passes of a module.
class Counted final : public Wrapper<float> {
 public:
  Counted(ModulePtr<float> module, int& passes) : Wrapper(std::move(module)), passes_(&passes) {}
  void forward(Pass<float>& pass, const float* x, Kept<float>& kept, float* out) override {
    ++*passes_;
    module_->forward(pass, x, kept, out);
  }
  void input_gradient(Pass<float>& pass, const float* x, Kept<float>& kept, const float* dout, float* dx) override {
    module_->input_gradient(pass, x, kept, dout, dx);
  }
  void weight_gradient(Pass<float>& pass, const float* x, Kept<float>& kept, const float* dout) override {
    module_->weight_gradient(pass, x, kept, dout);
  }

 private:
  int* passes_;
};

struct Passes {
  int attention = 0, experts = 0;
};

/// Blocks [first, last) with attention, an MLP with two dropouts, and experts in every third block.
inline ModulePtr<float> blocks(const LayerGroup& group, const ContextGroup& context, Passes& passes, int first = 0,
                               int last = kBlocks) {
  std::vector<ModulePtr<float>> all;
  for (int b = first; b < last; ++b) {
    const std::string name = fmt::format("blocks.{}", b);
    const auto norm = [&](const char* which) {
      return made<LayerNormModule<float>>(group, LayerNormShape{.name = name + which, .rows = kRows, .width = kWidth});
    };
    const AttentionShape attention{
        .name = name + ".attention", .width = kWidth, .heads = 4, .positions = SequenceCut::zig_zag(kRows, 1)};
    ModulePtr<float> mixer = made<Counted>(made<AttentionModule<float>>(group, context, attention), passes.attention);
    ModulePtr<float> feedforward;
    if (b % 3 == 2) {
      const ExpertsShape shape{.name = name + ".experts",
                               .rows = kRows,
                               .width = kWidth,
                               .inner = kInner,
                               .experts = 4,
                               .top_k = 2,
                               .chunks = 2,
                               .deviation = 0.3};
      feedforward = made<Counted>(made<ExpertsModule<float>>(group, ExpertRanks{}, shape), passes.experts);
    } else {
      const LinearShape up{.name = name + ".up", .rows = kRows, .inputs = kWidth, .outputs = kInner};
      const LinearShape down{.name = name + ".down", .rows = kRows, .inputs = kInner, .outputs = kWidth};
      feedforward = sequence<float>(made<ColumnModule<float>>(group, up, LinearOptions{.deviation = 0.3}),
                                    made<Pointwise<float>>(kRows * kInner, gelu<float>()),
                                    made<DropoutLayer>(name + ".inner", kInner),
                                    made<RowModule<float>>(group, down, LinearOptions{.deviation = 0.3}),
                                    made<DropoutLayer>(name + ".outer", kWidth));
    }
    all.push_back(
        unit<float>(name, sequence<float>(residual<float>(sequence<float>(norm(".norm1"), std::move(mixer))),
                                          residual<float>(sequence<float>(norm(".norm2"), std::move(feedforward))))));
  }
  return std::make_unique<Sequence<float>>(std::move(all));
}

/// The numbers that training leaves, and the memory that it took.
struct Outcome {
  std::vector<float> out{}, dx{}, gradients{};
  std::size_t held_bytes = 0, kept_bytes = 0;
  std::size_t planned_bytes = 0, said_bytes = 0;  ///< what the modules said that they would hold, and keep
  Passes passes{};
};

struct Policies {
  Recomputation recomputation{};
  ActivationOffload offload{};
  bool splits = false;  ///< the backward pass in two halves
};

/// Two microbatches. Both are in flight if `splits`: the second one's backward pass comes first.
inline Outcome trained(World& world, const Policies& policies) {
  Outcome outcome;
  HostBlas blas;
  Communicator none;
  const LayerGroup group{none, &blas};
  const ContextGroup context{none, none};
  Mesh mesh(world.communicator(), Factorisation({{"tp", 1}, {"dp", 1}}));
  Mesh expert_mesh(world.communicator(), Factorisation({{"ep", 1}, {"edp", 1}}));
  Model<float> model(mesh, blocks(group, context, outcome.passes),
                     [&world](std::size_t bytes) { return world.allocate(bytes); },
                     {.row = data_row("ddp", {"dp"}),
                      .expert_mesh = &expert_mesh,
                      .expert_row = data_row("ddp", {"edp"}),
                      .recomputation = policies.recomputation,
                      .offload = policies.offload});
  Module<float>& module = model.module();
  ArrayPool<float> pool;
  outcome.said_bytes = module.kept_bytes();
  const ArrayCounts planned = policies.splits ? module.kept_arrays() + module.deferred_arrays() +
                                                    most_of(module.first_half_arrays(), module.second_half_arrays())
                                              : most_of(module.forward_arrays(true), module.backward_arrays());
  outcome.planned_bytes = static_cast<std::size_t>(planned.elements()) * sizeof(float);
  const auto elements = static_cast<std::size_t>(module.in_elements());
  std::vector<float> x(elements), dout(elements);
  for (std::size_t i = 0; i < elements; ++i) {
    x[i] = std::sin(0.37F * static_cast<float>(i));
    dout[i] = std::cos(0.11F * static_cast<float>(i));
  }
  outcome.out.resize(elements);
  outcome.dx.resize(elements);
  const auto pass = [&] { return Pass<float>(model.data(), &model.experts(), pool, false); };
  if (policies.splits) {
    Pass<float> first = pass(), second = pass();
    Kept<float> of_first, of_second;
    std::vector<float> other_out(elements), other_dx(elements);
    module.forward(first, x.data(), of_first, outcome.out.data());
    module.forward(second, dout.data(), of_second, other_out.data());
    module.input_gradient(second, dout.data(), of_second, x.data(), other_dx.data());
    module.input_gradient(first, x.data(), of_first, dout.data(), outcome.dx.data());
    module.weight_gradient(second, dout.data(), of_second, x.data());
    module.weight_gradient(first, x.data(), of_first, dout.data());
  } else {
    for (int pass_number = 0; pass_number < 2; ++pass_number) {
      Pass<float> one = pass();
      Kept<float> kept;
      module.forward(one, x.data(), kept, outcome.out.data());
      outcome.kept_bytes = kept.bytes();
      module.backward(one, x.data(), kept, dout.data(), outcome.dx.data());
    }
  }
  outcome.held_bytes = pool.held_bytes();
  for (DataParallel* data : {&model.data(), &model.experts()}) {
    for (std::int32_t p = 0; p < std::ssize(data->parameters()); ++p) {
      const auto gradient = data->gradient<float>(p);
      outcome.gradients.insert(outcome.gradients.end(), gradient.begin(), gradient.end());
    }
  }
  return outcome;
}

inline Outcome trained(const Policies& policies) {
  Outcome outcome;
  sinew::test::on_threads(1, sinew::test::only("inproc"), [&](World& world) { outcome = trained(world, policies); });
  return outcome;
}

inline bool are_same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

inline void expect_same_numbers(const Outcome& found, const Outcome& expected) {
  EXPECT_TRUE(are_same_bits(found.out, expected.out));
  EXPECT_TRUE(are_same_bits(found.dx, expected.dx));
  EXPECT_TRUE(are_same_bits(found.gradients, expected.gradients));
}

inline std::shared_ptr<FileStore> file_store() { return std::make_shared<FileStore>(::testing::TempDir()); }

}  // namespace sinew::parallel::test
