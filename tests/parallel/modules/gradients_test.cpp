// The gradients of each module on one rank, against differences of its outputs.
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/compute/host_blas.hpp>
#include <sinew/parallel/modules/compose.hpp>
#include <sinew/parallel/modules/layers/attention_module.hpp>
#include <sinew/parallel/modules/layers/experts_module.hpp>
#include <sinew/parallel/modules/layers/layer_norm.hpp>
#include <sinew/parallel/modules/layers/pointwise.hpp>
#include <sinew/parallel/modules/layers/scan_module.hpp>
#include <sinew/parallel/modules/layers/state_space_module.hpp>
#include <sinew/parallel/modules/layers/vocabulary.hpp>
#include <sinew/parallel/modules/models/model.hpp>
#include <support/worlds.hpp>

namespace sinew::parallel {
namespace {

using sinew::test::complaint;
using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;
using ::testing::HasSubstr;
using Values = std::vector<double>;

constexpr double kStep = 1e-5, kTolerance = 1e-8;

Values wave(std::int64_t count, double by) {
  Values all(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = std::sin(by * static_cast<double>(i + 1));
  return all;
}

/// A module on one rank; the function that is differentiated is the sum of its outputs times `dout`, plus its loss.
struct Probe {
  Probe(World& world, ModulePtr<double> module, bool splits)
      : mesh(world.communicator(), Factorisation({{"tp", 1}, {"dp", 1}})),
        expert_mesh(world.communicator(), Factorisation({{"ep", 1}, {"edp", 1}})),
        model(mesh, std::move(module), [&world](std::size_t bytes) { return world.allocate(bytes); },
              {.row = data_row("ddp", {"dp"}),
               .parameter = DType::F64,
               .gradient = DType::F64,
               .expert_mesh = &expert_mesh,
               .expert_row = data_row("ddp", {"edp"})}),
        splits_(splits),
        x(wave(model.module().in_elements(), 0.61)),
        dout(wave(model.module().out_elements(), 0.37)) {
    for_each_parameter([](DataParallel& data, std::int32_t p) {
      auto values = data.parameter<double>(p);
      for (std::size_t i = 0; i < values.size(); ++i) values[i] += 0.3 * std::cos(1.7 * static_cast<double>(i) + p);
    });
  }

  void for_each_parameter(const std::function<void(DataParallel&, std::int32_t)>& f) {
    std::vector<DataParallel*> all{&model.data()};
    if (model.has_experts()) all.push_back(&model.experts());
    for (DataParallel* data : all) {
      for (std::int32_t p = 0; p < std::ssize(data->parameters()); ++p) f(*data, p);
    }
  }

  double value() {
    Pass<double> pass(model.data(), model.has_experts() ? &model.experts() : nullptr, pool, false);
    pass.batch = batch;
    Kept<double> kept;
    Values out(dout.size());
    model.module().forward(pass, x.data(), kept, out.data());
    double sum = pass.loss.sum;
    for (std::size_t i = 0; i < out.size(); ++i) sum += out[i] * dout[i];
    return sum;
  }
  double slope(double& at) {
    const double before = at;
    at = before + kStep;
    const double above = value();
    at = before - kStep;
    const double below = value();
    at = before;
    return (above - below) / (2 * kStep);
  }
  void compare(const std::string& what) {
    Pass<double> pass(model.data(), model.has_experts() ? &model.experts() : nullptr, pool, false);
    pass.batch = batch;
    Kept<double> kept;
    Values out(dout.size()), dx(x.size());
    model.module().forward(pass, x.data(), kept, out.data());
    if (splits_) {
      model.module().input_gradient(pass, x.data(), kept, dout.data(), dx.data());
      model.module().weight_gradient(pass, x.data(), kept, dout.data());
    } else {
      model.module().backward(pass, x.data(), kept, dout.data(), dx.data());
    }
    const auto near = [&](double found, double expected, const std::string& where) {
      require(std::abs(found - expected) <= kTolerance * (1 + std::abs(expected)),
              fmt::format("{}, {}: {} instead of {}", what, where, found, expected));
    };
    for (std::size_t i = 0; i < x.size(); ++i) near(dx[i], slope(x[i]), fmt::format("dx[{}]", i));
    for_each_parameter([&](DataParallel& data, std::int32_t p) {
      auto values = data.parameter<double>(p);
      const auto gradient = data.gradient<double>(p);
      const std::string& path = data.parameters()[static_cast<std::size_t>(p)].path;
      for (std::size_t i = 0; i < values.size(); ++i)
        near(gradient[i], slope(values[i]), fmt::format("{}[{}]", path, i));
    });
  }

  Mesh mesh, expert_mesh;
  Model<double> model;
  ArrayPool<double> pool;
  bool splits_;
  Values x, dout;
  MicroBatch batch{};
};

using Make = std::function<ModulePtr<double>(const LayerGroup&, const ContextGroup&)>;

void compare(const std::string& what, const Make& make, const MicroBatch& batch = {}) {
  for (const bool splits : {false, true}) {
    on_threads(1, only("inproc"), [&](World& world) {
      HostBlas blas;
      Communicator none;
      Probe probe(world, make({none, &blas}, {none, none}), splits);
      probe.batch = batch;
      probe.compare(what);
    });
  }
}

template <class M, class... Arguments>
ModulePtr<double> made(Arguments&&... arguments) {
  return std::make_unique<M>(std::forward<Arguments>(arguments)...);
}

TEST(ModuleGradients, OfLinearLayers) {
  const LinearShape shape{.name = "a", .rows = 3, .inputs = 4, .outputs = 5};
  for (const bool bias : {true, false}) {
    compare("column", [&](const LayerGroup& g, const ContextGroup&) {
      return made<ColumnModule<double>>(g, shape, LinearOptions{.bias = bias});
    });
    compare("row", [&](const LayerGroup& g, const ContextGroup&) {
      return made<RowModule<double>>(g, shape, LinearOptions{.bias = bias});
    });
  }
}

TEST(ModuleGradients, OfNormsAndFunctions) {
  compare("norm", [](const LayerGroup& g, const ContextGroup&) {
    return made<LayerNormModule<double>>(g, LayerNormShape{.name = "n", .rows = 3, .width = 7});
  });
  for (const auto& function : {gelu<double>(), relu<double>(), hyperbolic_tangent<double>()})
    compare("pointwise", [&](const LayerGroup&, const ContextGroup&) { return made<Pointwise<double>>(9, function); });
}

TEST(ModuleGradients, OfAttention) {
  for (const bool causal : {true, false}) {
    for (const int shared : {0, 2, 1}) {
      compare("attention", [&](const LayerGroup& g, const ContextGroup& context) {
        return made<AttentionModule<double>>(g, context,
                                             AttentionShape{.name = "a",
                                                            .width = 8,
                                                            .heads = 4,
                                                            .key_value_heads = shared,
                                                            .sequences = 2,
                                                            .positions = SequenceCut::zig_zag(5, 1),
                                                            .causal = causal},
                                             LinearOptions{.deviation = 0.3});
      });
    }
  }
}

TEST(ModuleGradients, OfScans) {
  for (const std::int64_t channels : {0, 5}) {
    for (const std::int64_t taps : {1, 3}) {
      compare("scan", [&](const LayerGroup& g, const ContextGroup& context) {
        return made<ScanModule<double>>(g, context.ring,
                                        ScanShape{.name = "s",
                                                  .width = 4,
                                                  .channels = channels,
                                                  .step_rank = 2,
                                                  .states = 3,
                                                  .taps = taps,
                                                  .sequences = 2,
                                                  .positions = SequenceCut::zig_zag(5, 1)},
                                        ScanOptions{.deviation = 0.3, .out_deviation = 0.4});
      });
    }
  }
}

TEST(ModuleGradients, OfStateSpaces) {
  for (const std::int64_t groups : {1, 3}) {
    for (const std::int64_t taps : {1, 3}) {
      compare("state space", [&](const LayerGroup& g, const ContextGroup& context) {
        return made<StateSpaceModule<double>>(g, context.ring,
                                              StateSpaceShape{.name = "s",
                                                              .width = 4,
                                                              .head_width = 2,
                                                              .heads = 3,
                                                              .groups = groups,
                                                              .states = 2,
                                                              .taps = taps,
                                                              .epsilon = 0.1,  // smooth enough for differences
                                                              .chunk = 3,
                                                              .sequences = 2,
                                                              .positions = SequenceCut::zig_zag(5, 1)},
                                              ScanOptions{.deviation = 0.3, .out_deviation = 0.4});
      });
    }
  }
}

TEST(ModuleGradients, OfLayersThatShareTheMemoryOfTheirScans) {
  const SequenceCut positions = SequenceCut::zig_zag(4, 1);
  const ScanOptions options{.deviation = 0.4, .out_deviation = 0.4};
  compare("two scans", [&](const LayerGroup& g, const ContextGroup& context) {
    ScanShape shape{.name = "a", .width = 3, .channels = 4, .states = 2, .positions = positions};
    const auto parts = std::make_shared<ScanParts<double>>(g, context.ring, shape);
    ModulePtr<double> first = made<ScanModule<double>>(g, context.ring, shape, options, parts);
    shape.name = "b";
    return sequence<double>(std::move(first), made<ScanModule<double>>(g, context.ring, shape, options, parts));
  });
  compare("two state spaces", [&](const LayerGroup& g, const ContextGroup& context) {
    StateSpaceShape shape{
        .name = "a", .width = 3, .head_width = 2, .heads = 2, .states = 2, .epsilon = 0.1, .positions = positions};
    const auto parts = std::make_shared<StateSpaceParts<double>>(g, context.ring, shape);
    ModulePtr<double> first = made<StateSpaceModule<double>>(g, context.ring, shape, options, parts);
    shape.name = "b";
    return sequence<double>(std::move(first), made<StateSpaceModule<double>>(g, context.ring, shape, options, parts));
  });
}

TEST(ModuleGradients, OfExperts) {
  for (const std::int64_t top_k : {1, 2, 3}) {
    for (const std::int64_t chunks : {1, 2}) {
      compare("experts", [&](const LayerGroup& g, const ContextGroup&) {
        return made<ExpertsModule<double>>(g, ExpertRanks{},
                                           ExpertsShape{.name = "e",
                                                        .rows = 5,
                                                        .width = 3,
                                                        .inner = 4,
                                                        .experts = 4,
                                                        .top_k = top_k,
                                                        .chunks = chunks,
                                                        .deviation = 0.5});
      });
    }
  }
}

TEST(ModuleGradients, OfModelsOverTokens) {
  const std::vector<std::int64_t> tokens{1, 4, 4, 0}, targets{4, 4, 0, -100};
  compare("tokens",
          [](const LayerGroup& g, const ContextGroup&) {
            return sequence<double>(
                made<EmbeddingModule<double>>(g, EmbeddingShape{.name = "e", .rows = 4, .vocabulary = 5, .width = 3}),
                made<ColumnModule<double>>(g, LinearShape{.name = "h", .rows = 4, .inputs = 3, .outputs = 5}),
                made<PredictionModule<double>>(g, CrossEntropyShape{.name = "l", .rows = 4, .vocabulary = 5}));
          },
          {.tokens = tokens, .targets = targets});
}

TEST(ModuleGradients, OfWhatIsPutTogether) {
  const auto mlp = [](const LayerGroup& g) {
    return sequence<double>(
        made<ColumnModule<double>>(g, LinearShape{.name = "u", .rows = 3, .inputs = 4, .outputs = 6}),
        made<Pointwise<double>>(18, gelu<double>()),
        made<RowModule<double>>(g, LinearShape{.name = "d", .rows = 3, .inputs = 6, .outputs = 4}));
  };
  compare("residual", [&](const LayerGroup& g, const ContextGroup&) { return residual<double>(mlp(g)); });
  compare("recomputed",
          [&](const LayerGroup& g, const ContextGroup&) { return recomputed<double>(residual<double>(mlp(g))); });
  compare("unit",
          [&](const LayerGroup& g, const ContextGroup&) { return unit<double>("u", recomputed<double>(mlp(g))); });
}

TEST(Modules, SayWhatDoesNotFit) {
  on_threads(1, only("inproc"), [](World&) {
    HostBlas blas;
    Communicator none;
    const LayerGroup g{none, &blas};
    const auto column = [&](std::int64_t inputs, std::int64_t outputs) {
      return made<ColumnModule<double>>(g, LinearShape{.name = "a", .rows = 1, .inputs = inputs, .outputs = outputs});
    };
    EXPECT_THAT(complaint([&] { sequence<double>(column(2, 3), column(4, 2)); }),
                HasSubstr("number 1 ('a') of a sequence takes 4 elements, expected 3, as number 0 ('a') makes them"));
    EXPECT_THAT(complaint([&] { residual<double>(column(2, 3)); }), HasSubstr("takes 2 elements and makes 3"));
    EXPECT_THAT(complaint([&] { Sequence<double>({}); }), HasSubstr("a sequence of no modules"));
    const auto scan = [&](std::int64_t states, int ranks, std::int64_t sequences, bool shares) {
      const auto shape = [&](std::int64_t count, std::int64_t length) {
        return ScanShape{.name = "s",
                         .width = 3,
                         .states = states,
                         .sequences = count,
                         .positions = SequenceCut::zig_zag(length, ranks)};
      };
      const auto parts = shares ? std::make_shared<ScanParts<double>>(g, none, shape(1, 4)) : nullptr;
      return complaint([&] { ScanModule<double>(g, none, shape(sequences, sequences == 1 ? 5 : 4), {}, parts); });
    };
    EXPECT_THAT(scan(0, 1, 1, false), HasSubstr("scan 's': width 3, channels 6, step rank 1, states 0, taps 4"));
    EXPECT_THAT(scan(2, 2, 1, false), HasSubstr("scan 's': positions are cut over 2 ranks, expected 1"));
    EXPECT_THAT(scan(2, 1, 2, true), HasSubstr("parts for 1 sequences of 6 channels with 2 states and 4 taps"));
    EXPECT_THAT(scan(2, 1, 1, true), HasSubstr("parts for positions that are cut in another way"));
    const auto state_space = [&](const StateSpaceShape& shape, const StateSpaceShape* of_parts = nullptr) {
      const auto parts = of_parts != nullptr ? std::make_shared<StateSpaceParts<double>>(g, none, *of_parts) : nullptr;
      return complaint([&] { StateSpaceModule<double>(g, none, shape, {}, parts); });
    };
    StateSpaceShape shape{
        .name = "m", .width = 3, .head_width = 4, .heads = 3, .states = 2, .positions = SequenceCut::zig_zag(5, 1)};
    const StateSpaceShape right = shape;
    EXPECT_EQ(state_space(shape, &right), "no complaint");
    shape.taps = 3;
    EXPECT_THAT(state_space(shape, &right), HasSubstr("1 groups, 4 taps and chunks of 64, expected 1 sequences of 3 "));
    shape = right, shape.positions = SequenceCut::zig_zag(6, 1);
    EXPECT_THAT(state_space(shape, &right), HasSubstr("parts for positions that are cut in another way"));
    shape = right, shape.states = 0;
    EXPECT_THAT(state_space(shape), HasSubstr("state space 'm': width 3, head width 4, groups 1, states 0, taps 4"));
    shape = right, shape.heads = 0;
    EXPECT_THAT(state_space(shape), HasSubstr("heads of 4 elements, expected a divisor of 6, twice the width"));
    shape = right, shape.groups = 2;
    EXPECT_THAT(state_space(shape), HasSubstr("3 heads in 2 groups, expected a multiple of the groups"));
    shape = right, shape.positions = SequenceCut::zig_zag(5, 2);
    EXPECT_THAT(state_space(shape), HasSubstr("positions are cut over 2 ranks, expected 1"));
    ParameterList list({.unit = "u"});
    sequence<double>(column(2, 2))->declare(list);
    EXPECT_THAT(complaint([&] { column(2, 2)->declare(list); }), HasSubstr("two parameters are called 'a.weight'"));
  });
}

}  // namespace
}  // namespace sinew::parallel
