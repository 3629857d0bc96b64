#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/parallel/job/job_rules.hpp>

#include "small_engine.hpp"

namespace sinew::parallel {
namespace {

/// Of eight heads and sequences of 16 positions.
EngineFacts invariant_engine() {
  EngineFacts engine = test::small_engine();
  engine.axes = {"dp", "tp", "cp", "pp"};
  engine.most_tp = engine.most_pp = 24;
  engine.most_cp = 16;
  engine.sequence_parallel = true;
  engine.invariant = {.why_not = "", .most_tp = 8, .most_cp = 8};
  return engine;
}

std::string found(int ranks, void (*change)(JobConfig&), const EngineFacts& engine = invariant_engine()) {
  JobConfig config;
  config.determinism = Determinism::LayoutInvariant;
  change(config);
  return to_string(violations(ranks, config, engine));
}

TEST(InvariantRules, AdmitPowersOfTwo) {
  EXPECT_EQ(found(1, [](JobConfig&) {}), "");
  EXPECT_EQ(found(8, [](JobConfig& c) { c.layout.tp = c.layout.cp = 2, c.zero = 3; }), "");
  EXPECT_EQ(found(8, [](JobConfig& c) { c.layout.tp = 8, c.sequence_parallel = true; }), "");
  EXPECT_EQ(found(8, [](JobConfig& c) { c.layout.cp = 8, c.layout.cp_levels = {2, 4}; }), "");
  EXPECT_EQ(found(8, [](JobConfig& c) { c.zero = 3, c.replicas = 4, c.micro_batches = 2; }), "");
  EXPECT_EQ(found(6, [](JobConfig& c) { c.layout.pp = 3, c.layout.tp = 2, c.micro_batches = 4; }), "");
  EXPECT_EQ(found(2, [](JobConfig& c) { c.precision = {DType::F64, DType::F64, DType::F64}; }), "");
  EXPECT_EQ(found(2, [](JobConfig& c) { c.precision = {DType::BF16, DType::F32, DType::BF16}; }), "");
}

TEST(InvariantRules, NameWhatWouldShow_WithTheNearestFix) {
  EXPECT_EQ(found(3, [](JobConfig& c) { c.layout.tp = 3; }),
            "  invariant_axes: layout_invariant: tp 3 is no power of two; expected determinism reproducible");
  EXPECT_EQ(found(16, [](JobConfig& c) { c.layout.tp = 16; }),
            "  invariant_axes: layout_invariant: tp 16, of at most 8; expected tp 8 or determinism reproducible");
  EXPECT_EQ(found(16, [](JobConfig& c) { c.layout.cp = 16; }),
            "  invariant_axes: layout_invariant: cp 16, of at most 8; expected cp 8 or determinism reproducible");
  EXPECT_EQ(found(16,
                  [](JobConfig& c) {
                    c.layout.cp = 4, c.layout.cp_levels = {4, 1}, c.layout.tp = 4;
                  }),
            "  invariant_axes: layout_invariant: 4 ranks that share the heads of each of tp 4, of at most 2; expected "
            "tp 2 or cp 4 that share no heads or determinism reproducible");
  EXPECT_EQ(found(128, [](JobConfig& c) { c.global_batch = 128; }),
            "  invariant_axes: layout_invariant: dp 128, of at most 64, 128 ranks sum gradients, of at most 64; "
            "expected tp 8 or determinism reproducible");
  EXPECT_EQ(found(4, [](JobConfig& c) { c.global_batch = 24; }),
            "  invariant_batch: layout_invariant, and a batch of 24 samples is no power of two; expected global_batch "
            "16 or global_batch 32 or determinism reproducible");
  EXPECT_EQ(found(2, [](JobConfig& c) { c.layout.tp = 2, c.sequence_parallel = c.decomposed = true; }),
            "  invariant_rows: layout_invariant, and rows on their way are summed in the order of their ring; expected "
            "not decomposed or determinism reproducible");
  EXPECT_EQ(found(1,
                  [](JobConfig& c) {
                    c.precision = {DType::BF16, DType::BF16, DType::F32};
                  }),
            "  invariant_precision: layout_invariant, and gradients of bf16 are rounded wherever they are added; "
            "expected gradients f32 or determinism reproducible");
  EXPECT_EQ(found(1, [](JobConfig& c) { c.codec = Codec::Bf16; }),
            "  codec: codec bf16 and layout_invariant: what is rounded on the way depends on the way; expected codec "
            "none or determinism fast");
}

TEST(InvariantRules, SayWhyAnEngineCannot) {
  EngineFacts engine = invariant_engine();
  engine.invariant.why_not = "its scans have pieces";
  EXPECT_EQ(found(
                3, [](JobConfig& c) { c.layout.tp = 3; }, engine),
            "  determinism: layout_invariant: its scans have pieces; expected determinism reproducible");
}

TEST(InvariantRules, AreAllReportedTogether) {
  JobConfig config{
      .layout = {.tp = 2}, .sequence_parallel = true, .decomposed = true, .global_batch = 12, .codec = Codec::Bf16};
  config.determinism = Determinism::LayoutInvariant;
  std::vector<std::string> rules;
  for (const Violation& v : violations(6, config, invariant_engine())) rules.push_back(v.rule);
  EXPECT_THAT(rules, ::testing::ElementsAre("codec", "invariant_axes", "invariant_batch", "invariant_rows"));
}

}  // namespace
}  // namespace sinew::parallel
