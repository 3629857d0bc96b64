// The bytes that modules say they will keep, against those that a forward pass leaves.
#include <algorithm>
#include <cstddef>
#include <cstdint>
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
#include <sinew/parallel/modules/layers/vocabulary.hpp>
#include <sinew/parallel/modules/models/model.hpp>
#include <support/worlds.hpp>

namespace sinew::parallel {
namespace {

using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;

/// The groups of one rank of a layout.
struct Surroundings {
  Surroundings(World& world, int tp, int cp, bool sequence_parallel)
      : mesh(world.communicator(), Factorisation({{"tp", tp}, {"cp", cp}})),
        expert_mesh(world.communicator(), Factorisation({{"ep", tp * cp}, {"edp", 1}})),
        group{mesh.along("tp"), &blas, sequence_parallel},
        context{none, mesh.along("cp")} {}

  HostBlas blas;
  Communicator none;
  Mesh mesh, expert_mesh;
  LayerGroup group;
  ContextGroup context;
};

using Make = std::function<ModulePtr<float>(Surroundings&)>;

template <class M, class... Arguments>
ModulePtr<float> made(Arguments&&... arguments) {
  return std::make_unique<M>(std::forward<Arguments>(arguments)...);
}

/// Runs a forward pass under several layouts. keeps: whether the module keeps anything at all.
void compare(const std::string& what, bool keeps, const Make& make, const MicroBatch& batch = {}) {
  struct Layout {
    int tp, cp;
    bool sequence_parallel;
  };
  for (const Layout& l : {Layout{1, 1, false}, Layout{2, 1, true}, Layout{1, 2, false}}) {
    on_threads(l.tp * l.cp, only("inproc"), [&](World& world) {
      Surroundings all(world, l.tp, l.cp, l.sequence_parallel);
      Model<float> model(
          all.mesh, make(all), [&world](std::size_t bytes) { return world.allocate(bytes); },
          {.row = data_row("ddp", {"cp"}), .expert_mesh = &all.expert_mesh, .expert_row = data_row("ddp", {"edp"})});
      Module<float>& module = model.module();
      ArrayPool<float> pool;
      Pass<float> pass(model.data(), model.has_experts() ? &model.experts() : nullptr, pool, false);
      pass.batch = batch;
      const std::vector<float> x(static_cast<std::size_t>(module.in_elements()), 0.5F);
      std::vector<float> out(static_cast<std::size_t>(module.out_elements()));
      Kept<float> kept;
      module.forward(pass, x.data(), kept, out.data());
      require(module.kept_bytes() == kept.bytes(), fmt::format("{}, tp {}, cp {}: {} bytes said, {} bytes kept", what,
                                                               l.tp, l.cp, module.kept_bytes(), kept.bytes()));
      require((kept.bytes() > 0) == keeps, what + ": keeps " + std::to_string(kept.bytes()));
    });
  }
}

ModulePtr<float> norm(const Surroundings& all, const std::string& name) {
  return made<LayerNormModule<float>>(all.group, LayerNormShape{.name = name, .rows = 6, .width = 8});
}

ModulePtr<float> mlp(const Surroundings& all) {
  ModulePtr<float> up =
      made<ColumnModule<float>>(all.group, LinearShape{.name = "up", .rows = 6, .inputs = 8, .outputs = 10});
  const std::int64_t inner = up->out_elements();
  return sequence<float>(
      std::move(up), made<Pointwise<float>>(inner, gelu<float>()),
      made<RowModule<float>>(all.group, LinearShape{.name = "down", .rows = 6, .inputs = 10, .outputs = 8}));
}

TEST(KeptBytes, OfLayersThatKeepNothing) {
  const LinearShape shape{.name = "a", .rows = 6, .inputs = 4, .outputs = 8};
  compare("column", false, [&](Surroundings& all) { return made<ColumnModule<float>>(all.group, shape); });
  compare("row", false, [&](Surroundings& all) { return made<RowModule<float>>(all.group, shape); });
  compare("pointwise", false, [](Surroundings&) { return made<Pointwise<float>>(9, relu<float>()); });
}

TEST(KeptBytes, OfLayersThatKeepArrays) {
  compare("norm", true, [](Surroundings& all) { return norm(all, "n"); });
  for (const int shared : {0, 2}) {
    compare("attention", true, [&](Surroundings& all) {
      return made<AttentionModule<float>>(
          all.group, all.context,
          AttentionShape{.name = "a",
                         .width = 16,
                         .heads = 4,
                         .key_value_heads = shared,
                         .sequences = 2,
                         .positions = SequenceCut::zig_zag(10, all.mesh.along("cp").size())});
    });
  }
}

/// Each token goes to all experts, so that the router cannot spread the rows unevenly.
TEST(KeptBytes, OfExpertsWithEvenRows) {
  for (const std::int64_t chunks : {1, 2}) {
    compare("experts", true, [&](Surroundings& all) {
      return made<ExpertsModule<float>>(
          all.group, ExpertRanks{.experts = &all.expert_mesh.along("ep")},
          ExpertsShape{.name = "e", .rows = 6, .width = 3, .inner = 5, .experts = 4, .top_k = 4, .chunks = chunks});
    });
  }
}

TEST(KeptBytes, OfModelsOverTokens) {
  const std::vector<std::int64_t> tokens{1, 4, 4, 0, 2, 2}, targets{4, 4, 0, -100, 2, 1};
  compare("tokens", true,
          [](Surroundings& all) {
            return sequence<float>(
                made<EmbeddingModule<float>>(all.group,
                                             EmbeddingShape{.name = "e", .rows = 6, .vocabulary = 5, .width = 4}),
                made<ColumnModule<float>>(all.group, LinearShape{.name = "h", .rows = 6, .inputs = 4, .outputs = 5}),
                made<PredictionModule<float>>(all.group, CrossEntropyShape{.name = "l", .rows = 6, .vocabulary = 5}));
          },
          {.tokens = tokens, .targets = targets});
}

TEST(KeptBytes, OfWhatIsPutTogether) {
  const auto layers = [](Surroundings& all) {
    return sequence<float>(residual<float>(sequence<float>(norm(all, "n"), mlp(all))), norm(all, "m"));
  };
  compare("sequence", true, layers);
  compare("unit", true, [&](Surroundings& all) { return unit<float>("u", layers(all)); });
  compare("recomputed", false, [&](Surroundings& all) { return unit<float>("u", recomputed<float>(layers(all))); });
}

/// Runs a forward and a backward pass, in one piece and in two halves. The pool of arrays has the planned bytes then.
void compare_plan(const std::string& what, Recompute recompute, const Make& make) {
  for (const bool splits : {false, true}) {
    on_threads(1, only("inproc"), [&](World& world) {
      Surroundings all(world, 1, 1, false);
      Model<float> model(all.mesh, make(all), [&world](std::size_t bytes) { return world.allocate(bytes); },
                         {.row = data_row("ddp", {"cp"}), .recomputation = {recompute}});
      Module<float>& module = model.module();
      ArrayPool<float> pool;
      Pass<float> pass(model.data(), nullptr, pool, false);
      const std::vector<float> x(static_cast<std::size_t>(module.in_elements()), 0.5F);
      std::vector<float> out(static_cast<std::size_t>(module.out_elements())), dout(out.size(), 0.25F), dx(x.size());
      Kept<float> kept;
      module.forward(pass, x.data(), kept, out.data());
      ArrayCounts planned = module.forward_arrays(true);
      if (splits) {
        module.input_gradient(pass, x.data(), kept, dout.data(), dx.data());
        module.weight_gradient(pass, x.data(), kept, dout.data());
        planned.raise_to(most_of(module.first_half_arrays(), module.second_half_arrays()));
      } else {
        module.backward(pass, x.data(), kept, dout.data(), dx.data());
        planned.raise_to(module.backward_arrays());
      }
      const auto bytes = static_cast<std::size_t>(planned.elements()) * sizeof(float);
      require(pool.held_bytes() == bytes,
              fmt::format("{}, splits {}: {} bytes held, {} planned", what, splits, pool.held_bytes(), bytes));
      require(bytes > 0, what + ": nothing was planned");
    });
  }
}

TEST(ArrayPool, HoldsNoMoreArraysOfVaryingRows_ThanWereInUseAtOnce) {
  constexpr std::int64_t kWidth = 4;
  ArrayPool<float> pool;
  std::int64_t most = 0, rows = 1;
  for (int pass = 0; pass < 200; ++pass) {
    rows = rows * 7919 % 211;  // 1 to 210, in no order
    most = std::max({most, rows, 210 - rows});
    const auto a = pool.take(rows * kWidth, kWidth), b = pool.take((210 - rows) * kWidth, kWidth);
    EXPECT_EQ(a.size(), static_cast<std::size_t>(rows * kWidth));
    std::ranges::fill(a, 1.0F);
    std::ranges::fill(b, 2.0F);
    EXPECT_EQ(std::ranges::count(a, 1.0F), rows * kWidth);
  }
  EXPECT_LE(pool.held_bytes(), 2 * static_cast<std::size_t>(most * kWidth) * sizeof(float));
  EXPECT_GT(pool.held_bytes(), static_cast<std::size_t>(most * kWidth) * sizeof(float));
  const auto other = pool.take(8, 8);  // rows of another width share nothing with them
  EXPECT_LE(pool.held_bytes(), (2 * static_cast<std::size_t>(most * kWidth) + 8) * sizeof(float));
  pool.take(0, kWidth);
}

TEST(PlannedArrays, AreThoseThatPassesTake) {
  const auto gelu_of = [](std::int64_t elements) { return made<Pointwise<float>>(elements, gelu<float>()); };
  const auto narrow = [&](Surroundings& all) {
    return sequence<float>(norm(all, "n"), mlp(all), gelu_of(48), gelu_of(48), norm(all, "m"));
  };
  const auto wide = [&](Surroundings& all) {
    auto column = made<ColumnModule<float>>(all.group, LinearShape{.name = "c", .rows = 5, .inputs = 7, .outputs = 14});
    auto position =
        made<PositionModule<float>>(all.group, "p", TokenPlaces(all.group, 1, SequenceCut::zig_zag(5, 1), 0), 14);
    return sequence<float>(gelu_of(35), std::move(column), std::move(position));
  };
  const auto attends = [&](Surroundings& all) {
    const AttentionShape shape{.name = "a", .width = 8, .heads = 2, .positions = SequenceCut::zig_zag(6, 1)};
    auto attention = made<AttentionModule<float>>(all.group, all.context, shape);
    return sequence<float>(residual<float>(sequence<float>(norm(all, "n"), std::move(attention))), norm(all, "m"));
  };
  for (const Recompute recompute : {Recompute::None, Recompute::Selective, Recompute::Full}) {
    const std::string policy = "policy " + std::to_string(static_cast<int>(recompute)) + ", ";
    compare_plan(policy + "pointwise functions", recompute, narrow);
    compare_plan(policy + "positions", recompute, wide);
    compare_plan(policy + "attention", recompute, attends);
  }
}

}  // namespace
}  // namespace sinew::parallel
