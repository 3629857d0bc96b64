#include <cstdint>
#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/config.hpp>
#include <sinew/core/error.hpp>
#include <sinew/parallel/job/job_rules.hpp>
#include <sinew/parallel/job/predicted_memory.hpp>
#include <sinew/parallel/mesh/layout_rules.hpp>
#include <support/scratch_folder.hpp>

#include "small_engine.hpp"

namespace sinew::parallel {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Broken {
  int ranks;
  JobConfig config;
  std::string rule, found;
  std::vector<std::string> fixes;
};

void PrintTo(const Broken& b, std::ostream* out) { *out << b.rule << ": " << b.found; }

class JobRule : public ::testing::TestWithParam<Broken> {};

TEST_P(JobRule, IsNamedWithItsNearestFixes_WhenItAloneIsBroken) {
  const Broken& b = GetParam();
  const std::vector<Violation> found = violations(b.ranks, b.config, test::small_engine());
  ASSERT_EQ(found.size(), 1U) << to_string(found);
  EXPECT_EQ(found[0].rule, b.rule);
  EXPECT_EQ(found[0].found, b.found);
  EXPECT_EQ(found[0].fixes, b.fixes);
}

template <class... Fixes>
Broken broken_by(int ranks, void (*change)(JobConfig&), const char* rule, const char* found, Fixes... fixes) {
  Broken b{.ranks = ranks, .rule = rule, .found = found, .fixes = {fixes...}};
  change(b.config);
  return b;
}

std::vector<Broken> broken() {
  std::vector<Broken> all;
  const auto add = [&all](auto... args) { all.push_back(broken_by(args...)); };
  add(
      4, [](JobConfig& c) { c.layout.dp = 3; }, "dense", "4 ranks are not tp 1 * cp 1 * dp 3 * pp 1", "dp 4",
      "3 ranks");
  add(
      4, [](JobConfig& c) { c.layout.tp = c.layout.pp = 2; }, "engine_axes",
      "tp 2, pp 2, and this engine is cut along dp only", "tp 1, pp 1");
  add(
      4, [](JobConfig& c) { c.sequence_parallel = true; }, "sequence_parallel",
      "sequence-parallel, and this engine cannot cut its rows", "not sequence-parallel");
  add(
      4, [](JobConfig& c) { c.zero = 4; }, "zero", "zero 4, of 0 to 3", "zero 3");
  add(
      4, [](JobConfig& c) { c.zero = -1; }, "zero", "zero -1, of 0 to 3", "zero 0");
  add(
      4, [](JobConfig& c) { c.zero = 3, c.replicas = 0; }, "replicas", "0 replicas", "replicas 1");
  add(
      6, [](JobConfig& c) { c.zero = 3, c.replicas = 4, c.global_batch = 12; }, "replicas",
      "4 replicas of what 6 data-parallel ranks shard", "replicas 3");
  add(
      4, [](JobConfig& c) { c.zero = 2, c.replicas = 2; }, "replicas_shard",
      "2 replicas with zero 2, which does not shard parameters", "zero 3", "replicas 1");
  add(
      4,
      [](JobConfig& c) {
        c.precision = {DType::I32, DType::F32, DType::F32};
      },
      "precision_parameter", "parameters of i32", "parameters f32");
  add(
      4,
      [](JobConfig& c) {
        c.precision = {DType::F32, DType::BF16, DType::F32};
      },
      "precision_gradient", "gradients of bf16 for parameters of f32", "gradients f32", "parameters bf16");
  add(
      4,
      [](JobConfig& c) {
        c.precision = {DType::F64, DType::F64, DType::F32};
      },
      "precision_output", "outputs of f32 where f64 is computed in", "outputs f64");
  add(
      3, [](JobConfig&) {}, "global_batch", "16 samples for 3 data-parallel ranks", "global_batch 15",
      "global_batch 18");
  add(
      4, [](JobConfig& c) { c.global_batch = 0; }, "global_batch", "0 samples, of 1 to 1073741824", "global_batch 4");
  add(
      4, [](JobConfig& c) { c.global_batch = 24, c.micro_batches = 4; }, "micro_batches",
      "4 micro-batches of the 6 samples of a rank", "micro_batches 3");
  add(
      4, [](JobConfig& c) { c.micro_batches = 0; }, "micro_batches", "0 micro-batches", "micro_batches 1");
  add(
      4, [](JobConfig& c) { c.zero = 1, c.reshard = Reshard::AfterBackward; }, "reshard",
      "parameters stay until the backward pass, and zero 1 does not gather any", "reshard after the forward pass",
      "zero 3");
  add(
      4, [](JobConfig& c) { c.zero = 1, c.prefetch_bytes = 100; }, "prefetch",
      "a limit of 100 bytes, and with zero 1 nothing is gathered or scattered ahead", "prefetch 0", "zero 2");
  add(
      4, [](JobConfig& c) { c.zero = 3, c.prefetch_bytes = -1; }, "prefetch", "-1 bytes", "prefetch 0");
  add(
      4,
      [](JobConfig& c) {
        c.precision = {DType::BF16, DType::BF16, DType::BF16};
        c.codec = Codec::Int8;
      },
      "codec", "codec int8 of gradients of bf16", "codec none", "gradients f32");
  add(
      4, [](JobConfig& c) { c.codec = Codec::Bf16, c.determinism = Determinism::Reproducible; }, "codec",
      "codec bf16 and reproducible: what is rounded on the way depends on the way", "codec none", "determinism fast");
  add(
      4, [](JobConfig& c) { c.error_feedback = true; }, "error_feedback", "no codec, so nothing is lost",
      "no error feedback");
  add(
      4, [](JobConfig& c) { c.zero = 1, c.weights = WeightWire::Int8; }, "weights",
      "weights int8 with zero 1, which keeps whole parameters", "weights plain", "zero 3");
  add(
      4, [](JobConfig& c) { c.int4_gradients = true; }, "int4_gradients",
      "gradients int4 with zero 0, which keeps whole parameters", "gradients plain", "zero 3");
  add(
      4, [](JobConfig& c) { c.zero = 3, c.int4_gradients = true, c.codec = Codec::Bf16; }, "int4_gradients",
      "gradients int4 and codec bf16, of which one can be", "gradients plain", "codec none");
  add(
      4, [](JobConfig& c) { c.zero = 3, c.near_ranks = 3; }, "near_ranks", "3 near ranks, of 4 that shard",
      "near_ranks 2");
  add(
      8, [](JobConfig& c) { c.zero = 3, c.replicas = 4, c.near_ranks = 4; }, "near_ranks",
      "4 near ranks, of 2 that shard", "near_ranks 2");
  add(
      4, [](JobConfig& c) { c.zero = 2, c.near_ranks = 2; }, "near_ranks",
      "2 near ranks with zero 2, which keeps whole parameters", "near_ranks 1", "zero 3");
  add(
      4, [](JobConfig& c) { c.near_ranks = 0; }, "near_ranks", "0 near ranks", "near_ranks 1");
  add(
      4, [](JobConfig& c) { c.determinism = Determinism::LayoutInvariant; }, "determinism",
      "layout_invariant: this engine has no such sums", "determinism reproducible");
  add(
      4, [](JobConfig& c) { c.memory_bytes = -1; }, "memory", "a limit of -1 bytes", "memory 0");
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, JobRule, ::testing::ValuesIn(broken()));

TEST(JobRules, AreEachBrokenByATest) {
  std::set<std::string> tested{"memory",     "engine_parts", "engine_context", "context_levels",
                               "decomposed", "pipeline",     "schedule"};
  for (const Broken& b : broken()) tested.insert(b.rule);
  for (const char* rule : {"engine_axes",      "engine_parts",   "sequence_parallel",   "zero",
                           "replicas",         "replicas_shard", "precision_parameter", "precision_gradient",
                           "precision_output", "global_batch",   "micro_batches",       "reshard",
                           "prefetch",         "codec",          "error_feedback",      "weights",
                           "int4_gradients",   "near_ranks",     "determinism",         "memory"})
    EXPECT_TRUE(tested.contains(rule)) << rule;
}

/// An engine that can be cut along all but experts.
EngineFacts cut_engine() {
  EngineFacts engine = test::small_engine();
  engine.axes = {"dp", "tp", "cp", "pp"};
  engine.most_tp = engine.most_pp = 4;
  engine.most_cp = 8;
  engine.sequence_parallel = true;
  return engine;
}

TEST(JobRules, AreBrokenWhereAnEngineIsCutTooFar) {
  const auto found = [](int ranks, void (*change)(JobConfig&)) {
    JobConfig config;
    config.global_batch = 48;
    change(config);
    return to_string(violations(ranks, config, cut_engine()));
  };
  EXPECT_EQ(found(16, [](JobConfig& c) { c.layout.cp = 16; }),
            "  engine_context: cp 16, and a sample has 8 parts; expected cp 8");
  EXPECT_EQ(found(8,
                  [](JobConfig& c) {
                    c.layout.cp = 8, c.layout.cp_levels = {2, 2, 2};
                  }),
            "  context_levels: cp has 3 levels: ranks that share heads, and rings of these; expected cp_levels 4, 2");
  EXPECT_EQ(found(8,
                  [](JobConfig& c) {
                    c.layout.cp = 4, c.layout.tp = 2, c.layout.cp_levels = {4, 1};
                  }),
            "  context_levels: 4 ranks share the 2 heads of each; expected cp_levels 2, 2");
  EXPECT_EQ(
      found(2, [](JobConfig& c) { c.layout.tp = 2, c.decomposed = true; }),
      "  decomposed: tensor-parallel layers are decomposed, and their rows are not cut between them; expected not "
      "decomposed or sequence-parallel");
  EXPECT_EQ(
      found(4, [](JobConfig& c) { c.decomposed = true; }),
      "  decomposed: tensor-parallel layers are decomposed, and their rows are not cut between them; expected not "
      "decomposed or sequence-parallel with tp 2");
  EXPECT_EQ(found(4, [](JobConfig& c) { c.sequence_parallel = true; }),
            "  sequence_parallel: sequence-parallel with tp 1; expected not sequence-parallel or tp 2");
  EXPECT_THAT(
      found(2, [](JobConfig& c) { c.schedule = "1f1f"; }),
      HasSubstr(
          "schedule: schedule '1f1f': expected one of gpipe, 1f1b, interleaved, looped-bfs, zb-h1, zb-v, dualpipev; "
          "expected schedule 1f1b"));
  EXPECT_EQ(found(1, [](JobConfig& c) { c.layout.pp = 2; }),
            "  dense: 1 rank is not a multiple of tp 1 * cp 1 * pp 2; expected pp 1 or 2 ranks");
  EXPECT_EQ(found(2, [](JobConfig& c) { c.layout.pp = 2, c.virtual_stages = 3, c.schedule = "interleaved"; }),
            "  pipeline: 6 stages, and this engine has 4 blocks; expected virtual_stages 2 or pp 1");
  EXPECT_EQ(found(8, [](JobConfig& c) { c.layout.pp = 8; }),
            "  pipeline: 8 stages, and this engine has 4 blocks; expected pp 4");
  EXPECT_THAT(
      found(2, [](JobConfig& c) { c.layout.pp = 2, c.schedule = "2f2b"; }),
      HasSubstr(
          "schedule: schedule '2f2b': expected one of gpipe, 1f1b, interleaved, looped-bfs, zb-h1, zb-v, dualpipev"));
  EXPECT_THAT(found(2, [](JobConfig& c) { c.layout.pp = 2, c.schedule = "none.csv"; }),
              HasSubstr("schedule 'none.csv' cannot be read: No such file"));
  EXPECT_THAT(found(2, [](JobConfig& c) { c.layout.pp = 2, c.virtual_stages = 2; }),
              HasSubstr("schedule: 1f1b: 2 virtual stages: expected 1"));
  EXPECT_THAT(found(2, [](JobConfig& c) { c.layout.pp = 2, c.schedule = "zb-h1", c.recompute = Recompute::Full; }),
              HasSubstr("does not keep; expected schedule 1f1b or recompute none"));
  EXPECT_EQ(found(2, [](JobConfig& c) { c.layout.pp = 2, c.schedule = "zb-v"; }),
            "  schedule: zb-v: 1 virtual stages: expected 2; interleaved and looped-bfs have any number; expected "
            "schedule 1f1b or virtual_stages 2");
  EXPECT_EQ(found(4, [](JobConfig& c) { c.layout.pp = 2, c.micro_batches = 2, c.schedule = "1f1b"; }), "");
  EXPECT_EQ(found(2, [](JobConfig& c) { c.layout.pp = c.virtual_stages = 2, c.schedule = "dualpipev"; }), "");
  EXPECT_EQ(found(8,
                  [](JobConfig& c) {
                    c.layout.pp = c.layout.tp = c.layout.cp = 2;
                    c.sequence_parallel = c.decomposed = true;
                    c.schedule = "interleaved", c.virtual_stages = 2, c.micro_batches = 3;
                  }),
            "");
}

/// All that is wrong with experts is said at once.
TEST(JobRules, AreBrokenWhereExpertsDoNotFit) {
  EngineFacts engine = cut_engine();
  engine.axes.insert(engine.axes.end(), {"ep", "etp"});
  engine.experts = 4;
  engine.most_etp = 2;
  engine.expert_parameters = engine.parameters;
  const auto found = [&](void (*change)(JobConfig&)) {
    JobConfig config;
    config.global_batch = 48;
    change(config);
    return to_string(violations(16, config, engine));
  };
  EXPECT_EQ(found([](JobConfig& c) { c.layout.ep = c.layout.etp = 2; }), "");
  EXPECT_EQ(found([](JobConfig& c) { c.layout.ep = 8; }),
            "  expert_parts: ep 8, and a layer has 4 experts; expected ep 4");
  EXPECT_EQ(found([](JobConfig& c) { c.layout.etp = 4; }),
            "  expert_parts: etp 4, and an expert has 2 parts; expected etp 2");
  EXPECT_THAT(
      found([](JobConfig& c) { c.layout.tp = 2, c.layout.ep = 8; }),
      AllOf(HasSubstr("expert_parts: ep 8"),
            HasSubstr("expert_tokens: tp 2 without sequence parallelism: its ranks would route the same tokens; "
                      "expected sequence-parallel")));
  EXPECT_EQ(found([](JobConfig& c) { c.zero = 3, c.replicas = 4, c.layout.ep = 4, c.layout.etp = 2; }),
            "  expert_replicas: 4 replicas of what 2 ranks with copies of an expert shard; expected replicas 1");
}

/// A schedule may say things that an engine does not do: it would run, with other memory than it promises.
TEST(JobRules, RefuseActionsThatNobodyTakes) {
  sinew::test::ScratchFolder folder;
  EngineFacts engine = cut_engine();
  const auto found = [&](const std::string& rows, Recompute recompute) {
    JobConfig config{.schedule = folder / "s.csv", .global_batch = 2, .recompute = recompute};
    config.layout.pp = 2;
    std::ofstream(config.schedule) << rows;
    return to_string(violations(2, config, engine));
  };
  const std::string again = "0F0,0R0,0B0\n1F0,1B0\n", unshards = "0UNSHARD,0F0,0B0,0RESHARD\n1F0,1B0\n";
  EXPECT_THAT(found(again, Recompute::None), HasSubstr("has 0R0, and recompute none keeps all activations; expected "
                                                       "schedule 1f1b or recompute selective"));
  EXPECT_EQ(found(again, Recompute::Full), "");
  EXPECT_THAT(
      found(unshards, Recompute::None),
      HasSubstr("has 0UNSHARD, and this engine gathers and sums all stages of a rank at once; expected schedule"));
  engine.takes_stage_actions = true;
  EXPECT_EQ(found(unshards, Recompute::None), "");
}

TEST(JobRules, AreAllKept_WhereNothingIsWrong) {
  const EngineFacts engine = test::small_engine();
  EXPECT_EQ(to_string(violations(1, {}, engine)), "");
  EXPECT_EQ(to_string(violations(8, {.zero = 3, .replicas = 2, .reshard = Reshard::AfterBackward}, engine)), "");
  EXPECT_EQ(
      to_string(violations(
          8, {.zero = 3, .replicas = 2, .weights = WeightWire::Int8, .int4_gradients = true, .near_ranks = 2}, engine)),
      "");
  EXPECT_EQ(to_string(violations(4,
                                 {.zero = 2,
                                  .precision = {DType::BF16, DType::F32, DType::BF16},
                                  .global_batch = 64,
                                  .micro_batches = 8,
                                  .codec = Codec::Int8,
                                  .error_feedback = true},
                                 engine)),
            "");
}

TEST(JobRules, KnowIntoHowManyPartsAnEngineCanBeCut) {
  EngineFacts engine = test::small_engine();
  engine.axes = {"dp", "tp"};
  engine.most_tp = 3;
  engine.sequence_parallel = true;
  EXPECT_EQ(to_string(violations(6, {.layout = {.tp = 3}, .sequence_parallel = true}, engine)), "");
  const std::vector<Violation> many = violations(6, {.layout = {.tp = 6}}, engine);
  ASSERT_EQ(many.size(), 1U) << to_string(many);
  EXPECT_EQ(many[0].rule, "engine_parts");
  EXPECT_EQ(many[0].found, "tp 6, and this engine has 3 parts");
  EXPECT_THAT(many[0].fixes, ElementsAre("tp 3"));
  const std::vector<Violation> alone = violations(2, {.sequence_parallel = true}, engine);
  ASSERT_EQ(alone.size(), 1U) << to_string(alone);
  EXPECT_EQ(alone[0].found, "sequence-parallel with tp 1");
}

TEST(JobRules, AreReportedTogether_WithThoseOfTheLayout) {
  const JobConfig config{.layout = {.dp = 3},
                         .zero = 7,
                         .precision = {DType::F64, DType::F32, DType::F64},
                         .micro_batches = -2,
                         .error_feedback = true};
  std::vector<std::string> rules;
  for (const Violation& v : violations(4, config, test::small_engine())) rules.push_back(v.rule);
  EXPECT_THAT(rules, ElementsAre("dense", "zero", "precision_gradient", "micro_batches", "error_feedback"));
  try {
    require_no_violations(4, config, test::small_engine());
    FAIL() << "nothing thrown";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::InvalidArgument);
    EXPECT_THAT(e.what(), HasSubstr("job of 4 ranks breaks 5 rules:\n  dense: 4 ranks are not"));
    EXPECT_THAT(e.what(), HasSubstr("  zero: zero 7, of 0 to 3; expected zero 3\n"));
  }
}

TEST(JobRules, SayWhatFitsIntoMemory) {
  const EngineFacts engine = test::small_engine();
  const auto needed = [&](const JobConfig& config) {
    JobConfig limited = config;
    limited.memory_bytes = 1;
    const std::vector<Violation> found = violations(4, limited, engine);
    EXPECT_EQ(found.size(), 1U) << to_string(found);
    EXPECT_EQ(found.at(0).rule, "memory");
    const std::string& fix = found.at(0).fixes.back();  // "memory 52KiB"
    return static_cast<std::int64_t>(parse_bytes(fix.substr(fix.find(' ') + 1)));
  };
  const JobConfig ddp{.global_batch = 64};
  JobConfig most = ddp;
  most.memory_bytes = needed(ddp);
  EXPECT_EQ(to_string(violations(4, most, engine)), "");  // what it says would do does
  const std::string enough = "memory " + format_bytes(static_cast<std::uint64_t>(most.memory_bytes));
  most.memory_bytes = predict_memory(4, ddp, engine).total() - 1;
  const std::vector<Violation> found = violations(4, most, engine);
  ASSERT_EQ(found.size(), 1U) << to_string(found);
  EXPECT_THAT(found[0].fixes, ElementsAre("zero 1", "recompute full", "micro_batches 2", enough));
  JobConfig least = ddp;
  least.zero = 3, least.recompute = Recompute::Full;
  most.memory_bytes = predict_memory(4, least, engine).total();
  const std::vector<Violation> tight = violations(4, most, engine);
  ASSERT_EQ(tight.size(), 1U) << to_string(tight);
  EXPECT_THAT(tight[0].fixes, ElementsAre("zero 3 with recompute full", enough));
}

/// Five experts on two ranks, and rows of each on two: the last of both have more.
TEST(JobRules, PredictTheMemoryOfTheRankThatHasMost) {
  EngineFacts engine = test::small_engine();
  engine.experts = 5;
  engine.expert_parameters = [](const JobConfig& config, const RankPlace& place) {
    return std::vector<DataParameter>{{.path = "experts",
                                       .dtype = config.precision.parameter,
                                       .elements = (place.ep == 0 ? 2 : 3) * (place.etp == 0 ? 1000 : 1001),
                                       .unit = "a",
                                       .gradient = config.precision.gradient}};
  };
  JobConfig config{.global_batch = 64};
  config.layout.ep = config.layout.etp = 2;
  const auto of = [&](int ep, int etp) {
    return predict_memory(4, config, engine, RankPlace{.ep = ep, .etp = etp}).total();
  };
  EXPECT_GT(of(1, 0), of(0, 1));
  EXPECT_EQ(predict_memory(4, config, engine).total(), of(1, 1));
}

}  // namespace
}  // namespace sinew::parallel
