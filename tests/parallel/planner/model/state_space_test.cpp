// Shapes of models with Mamba layers, beside what was published and what the modules of such layers declare and keep.
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/compute/host_blas.hpp>
#include <sinew/parallel/mesh/mesh.hpp>
#include <sinew/parallel/modules/layers/scan_module.hpp>
#include <sinew/parallel/modules/layers/state_space_module.hpp>
#include <sinew/parallel/modules/parameter_list.hpp>
#include <sinew/parallel/planner/model/activations.hpp>
#include <sinew/parallel/planner/model/model_json.hpp>
#include <sinew/parallel/planner/model/model_weights.hpp>
#include <sinew/parallel/planner/model/named_models.hpp>
#include <sinew/parallel/planner/planner.hpp>
#include <sinew/parallel/planner/search/layout_text.hpp>
#include <sinew/parallel/planner/search/search.hpp>
#include <support/worlds.hpp>

namespace sinew::parallel {
namespace {

using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;
using testing::HasSubstr;

/// The Hugging Face hub counts the tensors of each.
TEST(StateSpaceShapes, CountParametersAsPublished) {
  for (const auto& [name, count] : {std::pair("mamba-130m", std::int64_t{129'135'360}),
                                    {"mamba-2.8b", 2'768'345'600},
                                    {"mamba2-130m", 128'989'632},
                                    {"mamba2-2.7b", 2'702'599'680}})
    EXPECT_EQ(parameter_count(named_model(name)), count) << name;
}

constexpr std::int64_t kTokens = 32, kSequences = 2;

ModelShape shape_of(int version, std::int64_t groups) {
  ModelShape m{.name = "small", .layers = 2, .hidden = 64, .vocabulary = 100, .context = kTokens, .mamba = version};
  m.states = 16;
  if (version == 2) m.state_head_width = 16, m.state_groups = groups;
  return m;
}

ModulePtr<float> layer_of(const ModelShape& m, const LayerGroup& group, const CallGroup& context, int cp) {
  const SequenceCut cut = SequenceCut::zig_zag(kTokens, cp);
  if (m.mamba == 1)
    return std::make_unique<ScanModule<float>>(
        group, context,
        ScanShape{.name = "a", .width = m.hidden, .states = m.states, .sequences = kSequences, .positions = cut});
  return std::make_unique<StateSpaceModule<float>>(group, context,
                                                   StateSpaceShape{.name = "a",
                                                                   .width = m.hidden,
                                                                   .head_width = m.state_head_width,
                                                                   .groups = m.state_groups,
                                                                   .states = m.states,
                                                                   .sequences = kSequences,
                                                                   .positions = cut});
}

/// Each rank of a real layer declares the planned elements, and keeps the planned ones for its backward pass.
void compare_with_layer(const ModelShape& m, int tp, int cp, bool sequence_parallel) {
  on_threads(tp * cp, only("inproc"), [&](World& world) {
    const std::string what = fmt::format("mamba {} of {} groups, tp {}, cp {}", m.mamba, m.state_groups, tp, cp);
    HostBlas blas;
    Mesh mesh(world.communicator(), Factorisation({{"tp", tp}, {"cp", cp}}));
    const ModulePtr<float> layer = layer_of(m, {mesh.along("tp"), &blas, sequence_parallel}, mesh.along("cp"), cp);
    ParameterList list({.dtype = DType::F32, .unit = "u"});
    layer->declare(list);
    std::int64_t declared = 0;
    for (const DataParameter& p : complete_parameters(list.dense().parameters)) declared += p.elements;
    const std::int64_t planned = elements_of(layer_weights(m, 0, {mesh.index("tp"), tp, 1})) - m.hidden;  // the norm
    require(declared == planned, fmt::format("{}: {} elements declared, {} planned", what, declared, planned));
    const LayerInput in{
        .samples = kSequences, .sequence = kTokens, .tp = tp, .cp = cp, .sequence_parallel = sequence_parallel};
    const double of_norm = 2 * 2 * static_cast<double>(m.hidden * kSequences * kTokens) / cp /
                           (sequence_parallel ? tp : 1);  // its input and output
    const double kept = static_cast<double>(layer->kept_bytes()) / sizeof(float) * 2;
    const double said = layer_activations(m, 0, in, Recompute::None).kept - of_norm;
    // The planner counts two pieces of a sequence on each rank, but those of the last one lie side by side.
    const bool is_last = cp > 1 && mesh.index("cp") == cp - 1;
    require(is_last ? kept < said : std::abs(kept - said) < 1e-6 * kept,
            fmt::format("{}: {} bytes kept, {} planned", what, kept, said));
  });
}

TEST(StateSpaceShapes, AreThoseOfTheModules) {
  for (const auto& [version, groups] : {std::pair(1, 0), {2, 1}, {2, 2}}) {
    const ModelShape m = shape_of(version, groups);
    compare_with_layer(m, 1, 1, false);
    compare_with_layer(m, 2, 1, false);
    compare_with_layer(m, 2, 1, true);
    compare_with_layer(m, 1, 2, false);
    compare_with_layer(m, 2, 2, true);
  }
}

/// A token takes 6 operations for each element that it is multiplied with, and 12 for each state. Its number does not
/// depend on the length of a sequence.
TEST(StateSpaceShapes, CountOperations) {
  const ModelShape m = named_model("mamba2-130m");
  const double projections = 768.0 * (2 * 1536 + 2 * 128 + 24) + 1536.0 * 768, head = 50288.0 * 768;
  EXPECT_DOUBLE_EQ(model_flops_of_token(m, 2048), 6 * (24 * projections + head) + 12 * 24 * 1536.0 * 128);
  EXPECT_EQ(model_flops_of_token(m, 2048), model_flops_of_token(m, 65536));
}

/// Every fourth layer has attention, and all layers have an MLP.
TEST(StateSpaceShapes, AreMixedWithAttention) {
  const ModelShape m = model_from_json(
      R"({"layers": 8, "hidden": 64, "heads": 4, "feed_forward": 128, "vocabulary": 100, "context": 32, "mamba": 2,
          "attention_every": 4, "state_head_width": 16, "states": 16})",
      "m.json");
  EXPECT_EQ(m.attention_layers(), 2);
  const auto has = [&](std::int64_t layer, const std::string& name) {
    for (const Weight& w : layer_weights(m, layer)) {
      if (w.name.starts_with(name)) return true;
    }
    return false;
  };
  for (std::int64_t l = 0; l < 8; ++l) {
    EXPECT_EQ(has(l, "attention.queries"), l == 3 || l == 7) << l;
    EXPECT_EQ(has(l, "state_space.in"), l != 3 && l != 7) << l;
    EXPECT_TRUE(has(l, "mlp.up"));
  }
  std::int64_t all = 0;
  for (std::int64_t l = 0; l < 8; ++l) all += elements_of(layer_weights(m, l));
  EXPECT_EQ(parameter_count(m), all + elements_of(input_weights(m)) + elements_of(output_weights(m)));
}

TEST(StateSpaceShapes, ArePlanned) {
  PlanQuestion q;
  q.model = named_model("mamba2-2.7b");
  q.cluster = cluster_spec(virtual_cluster_from("dgx-h100x2"));
  q.global_batch = 64;
  Planner planner(q);
  const PlanResult found = search(planner, {.top = 5});
  ASSERT_EQ(found.best.size(), 5U);
  for (const PlannedLayout& p : found.best) EXPECT_EQ(to_string(planner.violations(p.config)), "");
  // As long sequences with as many tokens in all take as long, because states do not grow with sequences.
  q.sequence = 16384;
  q.global_batch = 8;
  Planner longer(q);
  const PlannedTime once = planner.time(layout_from_text(planner.question(), "zero=1,micro-batch=4,tp=4"));
  const PlannedTime more = longer.time(layout_from_text(longer.question(), "zero=1,micro-batch=1,tp=4,cp=2"));
  EXPECT_NEAR(more.passes.compute, once.passes.compute, 0.02 * once.passes.compute);
  EXPECT_GT(more.passes.context, 0);
  EXPECT_THAT(to_string(planner.violations(layout_from_text(planner.question(), "tp=16,pp=1"))), "");
}

TEST(StateSpaceShapes, NameTheirFaults) {
  const auto refusal = [](const std::string& members) -> std::string {
    try {
      static_cast<void>(model_from_json(
          R"({"layers": 4, "hidden": 64, "vocabulary": 100, "context": 32, )" + members + "}", "m.json"));
    } catch (const Error& e) {
      return e.what();
    }
    return "taken";
  };
  EXPECT_EQ(refusal(R"("mamba": 1)"), "taken");
  EXPECT_THAT(refusal(R"("mamba": 3)"), HasSubstr("mamba: 3, expected 0 to 2"));
  EXPECT_THAT(refusal(R"("mamba": 2, "attention_every": 2)"), HasSubstr("heads: is absent"));
  EXPECT_THAT(refusal(R"("mamba": 2, "state_head_width": 60)"),
              HasSubstr("state_head_width: 60, expected a divisor of state_inner 128"));
  EXPECT_THAT(refusal(R"("mamba": 2, "state_groups": 3)"),
              HasSubstr("state_groups: 3, expected a divisor of the heads"));
  EXPECT_THAT(refusal(R"("mamba": 1, "state_groups": 2)"), HasSubstr("state_groups: 2, expected 0 without mamba 2"));
  EXPECT_THAT(refusal(R"("heads": 4, "feed_forward": 8, "states": 16)"),
              HasSubstr("states: 16, expected 0 without mamba"));
}

}  // namespace
}  // namespace sinew::parallel
