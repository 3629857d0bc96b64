// Plans of ZeRO++, beside what a real job of these parameters holds and sends.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/collectives/virtual_cluster/virtual_world.hpp>
#include <sinew/collectives/world/virtual_ranks.hpp>
#include <sinew/core/error.hpp>
#include <sinew/parallel/job/describe.hpp>
#include <sinew/parallel/job/job.hpp>
#include <sinew/parallel/planner/model/named_models.hpp>
#include <sinew/parallel/planner/search/layout_text.hpp>
#include <sinew/parallel/planner/search/search.hpp>
#include <support/worlds.hpp>

namespace sinew::parallel {
namespace {

using sinew::test::require;
using testing::HasSubstr;

/// Two hosts of four ranks, and a model whose units are large enough that padding is little.
PlanQuestion on_two_hosts(std::int64_t experts = 0) {
  PlanQuestion q;
  q.model = {.name = "small",
             .layers = 6,
             .hidden = 128,
             .heads = 4,
             .feed_forward = 512,
             .vocabulary = 640,
             .context = 32,
             .tied = true,
             .biases = true};
  if (experts > 0) {
    q.model.experts = experts;
    q.model.top_k = 2;
    q.model.expert_feed_forward = 256;
    q.model.feed_forward = 0;
  }
  q.cluster = cluster_spec(virtual_cluster_from("xeon-2s:4+4"),
                           {.flops = 1e12, .memory_bytes_per_s = 1e11, .memory_bytes = std::int64_t{1} << 30});
  q.global_batch = 8;
  q.zero_plus_plus = true;
  return q;
}

JobConfig laid_out(Planner& planner, const std::string& text) {
  JobConfig config = layout_from_text(planner.question(), text);
  require(to_string(planner.violations(config)).empty(), to_string(planner.violations(config)));
  return config;
}

/// The passes of a step through all units of a strategy, without computing anything.
void step_of(DataParallel& data, const std::string& outer) {
  std::vector<std::string> names;
  for (const DataParameter& p : data.parameters()) {
    if (p.unit != outer && (names.empty() || names.back() != p.unit)) names.push_back(p.unit);
  }
  std::vector<std::int32_t> units;
  for (const std::string& name : names) units.push_back(data.unit(name));
  const auto report = [&](const std::string& unit) {
    for (std::int32_t p = 0; p < std::ssize(data.parameters()); ++p) {
      if (data.parameters()[static_cast<std::size_t>(p)].unit != unit) continue;
      (void)data.gradient(p);
      data.gradient_ready(p);
    }
  };
  if (!outer.empty()) data.before_forward(data.unit(outer));
  for (const std::int32_t u : units) data.before_forward(u), data.after_forward(u);
  if (!outer.empty()) data.after_forward(data.unit(outer)), data.before_backward(data.unit(outer));
  for (std::size_t i = units.size(); i-- > 0;) {
    data.before_backward(units[i]);
    report(names[i]);
    data.after_backward(units[i]);
  }
  if (!outer.empty()) report(outer), data.after_backward(data.unit(outer));
  (void)data.finish_backward();
  data.updated();
}

struct Found {
  std::vector<std::uint64_t> sent{};  // to other hosts, by rank
  std::int64_t parameters = 0, gradients = 0, underway = 0;
};

/// Runs a step of a job of this plan, and returns what rank 0 held and what all ranks sent to other hosts.
Found run_step(const PlanQuestion& question, const JobConfig& config) {
  Found found;
  WorldOptions options;
  options.count_sent = true;
  run_virtual_ranks(make_virtual_world(virtual_cluster_from("xeon-2s:4+4")), options, [&](World& world) {
    const EngineFacts engine = planned_engine(question.complete());
    const auto initial = [](const InitialPart& part) { part.fill([](std::int64_t) { return 1; }); };
    Job job(world, config, engine, initial, initial);
    const auto sent = [&] {
      std::uint64_t sum = 0;
      const std::vector<std::uint64_t> all = world.sent_bytes();
      for (int r = 0; r < world.size(); ++r) sum += r / 4 == world.rank() / 4 ? 0 : all[static_cast<std::size_t>(r)];
      return sum;
    };
    const std::uint64_t before = sent();
    step_of(job.data(), stages(config) == 1 ? "root" : "");
    if (job.has_experts()) step_of(job.experts(), "");
    std::vector<std::uint64_t> all(static_cast<std::size_t>(world.size()));
    all[static_cast<std::size_t>(world.rank())] = sent() - before;
    world.communicator().all_reduce(all).get();
    if (world.rank() != 0) return;
    found.sent = all;
    const auto most = [&](Purpose purpose) {
      std::size_t bytes = job.data().held().most_of(purpose);
      if (job.has_experts()) bytes += job.experts().held().most_of(purpose);
      return static_cast<std::int64_t>(bytes);
    };
    found.parameters = most(Purpose::Parameter);
    found.gradients = most(Purpose::Gradient);
    found.underway = most(Purpose::Underway);
  });
  return found;
}

/// The plan has the bytes that the transport counts between hosts, and the memory that a rank holds.
TEST(ZeroPlusPlusPlan, SaysWhatAJobHoldsAndSends) {
  for (const std::int64_t experts : {0, 8}) {
    Planner planner(on_two_hosts(experts));
    for (const char* layout :
         {"zero=3", "zero=3,weights=int8", "zero=3,gradients=int4", "zero=3,near=4",
          "zero=3,weights=int8,gradients=int4,near=4", "zero=3,ep=2,weights=int8,gradients=int4,near=4"}) {
      if (experts == 0 && std::string(layout).find("ep=") != std::string::npos) continue;
      const JobConfig config = laid_out(planner, layout);
      const Found found = run_step(planner.question(), config);
      const PlannedMemory planned = planner.memory(config);
      EXPECT_EQ(found.parameters, planned.parameters) << layout;
      EXPECT_EQ(found.gradients, planned.gradients) << layout;
      EXPECT_LE(found.underway, planned.underway) << layout;
      EXPECT_GE(found.underway, planned.underway * 9 / 10) << layout;
      if (experts > 0) continue;  // experts have no near ranks, so their plan counts each rank as a host
      double sent = 0;
      for (const std::uint64_t bytes : found.sent) sent += static_cast<double>(bytes);
      EXPECT_NEAR(sent / 8, static_cast<double>(planner.traffic(config).total()), 0.02 * sent / 8) << layout;
    }
  }
}

/// A gather of M parameters in 16 bits sends M between hosts for the forward and M for the backward pass, and a sum M.
/// With all three parts it is 0.5 M, 0 and 0.25 M.
/// Source: Wang et al., ZeRO++, arXiv 2306.10209, table 1. Scales and f32 gradients come on top here.
TEST(ZeroPlusPlusPlan, SendsTheSharesOfThePaper) {
  PlanQuestion q;
  q.model = named_model("llama3-8b");
  q.cluster = cluster_spec(virtual_cluster_from("dgx-h100x16"));
  q.global_batch = 128;
  q.precision.gradient = DType::BF16;
  Planner planner(q);
  const FarTraffic plain = planner.traffic(laid_out(planner, "zero=3"));
  const auto share = [&](const std::string& text, std::int64_t FarTraffic::*of) {
    return static_cast<double>(planner.traffic(laid_out(planner, "zero=3," + text)).*of) /
           static_cast<double>(plain.*of);
  };
  // The root and the last layer stay gathered, so only the other layers are gathered again.
  const double layers = 218'112'000.0 * 31, all = 8'030'261'248.0;
  const double once = all / (all + layers);
  EXPECT_NEAR(share("near=8", &FarTraffic::weights), once, 1e-3);
  EXPECT_NEAR(share("weights=int8", &FarTraffic::weights), 0.5 * (1 + 4.0 / 256), 1e-3);
  EXPECT_NEAR(share("weights=int8,near=8", &FarTraffic::weights), once * 0.5 * (1 + 4.0 / 256), 1e-3);
  EXPECT_NEAR(share("gradients=int4,near=8", &FarTraffic::gradients), 0.25 * (1 + 4.0 / 64), 1e-3);
}

/// Between hosts the link is slow, so fewer bytes take less time. The near copies take memory: a part of 1/8 of all
/// parameters on each rank of a host, beside the shard of 1/128.
TEST(ZeroPlusPlusPlan, TradesMemoryForTime) {
  PlanQuestion q;
  q.model = named_model("llama3-8b");
  q.cluster = cluster_spec(virtual_cluster_from("dgx-h100x16"));
  q.global_batch = 128;
  q.sequence = 512;
  Planner planner(q);
  const PlannedLayout plain = planner.plan(laid_out(planner, "zero=3"));
  const PlannedLayout all = planner.plan(laid_out(planner, "zero=3,weights=int8,gradients=int4,near=8"));
  EXPECT_LT(all.time.total(), plain.time.total());
  EXPECT_LT(all.time.data.parameters, plain.time.data.parameters);
  const double copies = 2 * 218'112'000.0 * 31 / 8;
  const PlannedMemory near = planner.memory(laid_out(planner, "zero=3,near=8"));
  EXPECT_GT(near.underway - plain.memory.underway, 0.8 * copies);
  EXPECT_LT(near.underway - plain.memory.underway, 1.1 * copies);
  EXPECT_EQ(near.parameters, plain.memory.parameters);
}

TEST(ZeroPlusPlusPlan, IsSearched_WhereTheQuestionAllowsIt) {
  PlanQuestion q = on_two_hosts();
  q.sequence = 32;
  const auto has_any = [](const PlanResult& result) {
    return std::ranges::any_of(result.best, [](const PlannedLayout& p) {
      return p.config.weights != WeightWire::Plain || p.config.int4_gradients || p.config.near_ranks > 1;
    });
  };
  Planner with(q);
  const PlanResult found = search(with, {.top = 1000});
  EXPECT_TRUE(has_any(found));
  for (const PlannedLayout& p : found.best) EXPECT_EQ(to_string(with.violations(p.config)), "");
  q.zero_plus_plus = false;
  Planner without(q);
  const PlanResult plain = search(without, {.top = 1000});
  EXPECT_FALSE(has_any(plain));
  EXPECT_LT(plain.judged, found.judged);
}

TEST(ZeroPlusPlusPlan, NeedsTwoTiers) {
  for (const auto& [cluster, found] :
       {std::pair("dgx-h100x1", "ZeRO++ on 1 host of 8 ranks"), {"xeon-2s:1+1+1", "ZeRO++ on 3 hosts of 1 rank,"}}) {
    PlanQuestion q = on_two_hosts();
    q.cluster = cluster_spec(virtual_cluster_from(cluster),
                             {.flops = 1e12, .memory_bytes_per_s = 1e11, .memory_bytes = std::int64_t{1} << 30});
    try {
      static_cast<void>(Planner(q));
      ADD_FAILURE() << cluster;
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), HasSubstr(found));
      EXPECT_THAT(e.what(), HasSubstr("expected 2 or more hosts of 2 or more ranks"));
    }
  }
}

}  // namespace
}  // namespace sinew::parallel
