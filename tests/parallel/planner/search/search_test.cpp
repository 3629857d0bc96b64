#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/job/job_rules.hpp>
#include <sinew/parallel/job/predicted_memory.hpp>
#include <sinew/parallel/pipeline/generators/generators.hpp>
#include <sinew/parallel/planner/model/named_models.hpp>
#include <sinew/parallel/planner/search/layout_text.hpp>
#include <sinew/parallel/planner/search/search.hpp>

namespace sinew::parallel {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// Small enough to try everything.
PlanQuestion small(int hosts, std::int64_t memory_bytes) {
  PlanQuestion q;
  q.model = {.name = "small",
             .layers = 4,
             .hidden = 64,
             .heads = 4,
             .feed_forward = 256,
             .vocabulary = 100,
             .context = 32,
             .tied = true,
             .biases = true};
  q.cluster = cluster_spec(virtual_cluster_from("xeon-2sx" + std::to_string(hosts)), {.memory_bytes = memory_bytes});
  q.global_batch = 4;
  return q;
}

/// Every value of every setting, right or wrong, in an order of its own.
template <class Visit>
void for_every_layout(const PlanQuestion& q, Visit visit) {
  JobConfig c;
  c.precision = q.precision;
  c.global_batch = q.global_batch;
  for (c.layout.cp = 1; c.layout.cp <= q.ranks(); ++c.layout.cp) {
    for (c.layout.pp = 1; c.layout.pp <= q.ranks(); ++c.layout.pp) {
      for (c.layout.tp = 1; c.layout.tp <= q.ranks(); ++c.layout.tp) {
        c.sequence_parallel = c.layout.tp > 1;
        for (const NamedGenerator& g : generators()) {
          c.schedule = g.name;
          if (c.layout.pp == 1 && g.name != "1f1b") continue;  // one stage has no schedule
          const int most = g.virtual_stages(static_cast<std::int32_t>(q.model.layers));
          for (c.virtual_stages = g.virtual_stages(2); c.virtual_stages <= most; ++c.virtual_stages) {
            if (c.virtual_stages > 1 && q.model.layers % (c.layout.pp * c.virtual_stages) != 0) continue;
            for (c.micro_batches = 1; c.micro_batches <= q.global_batch; ++c.micro_batches) {
              for (const Recompute r : {Recompute::Full, Recompute::Selective, Recompute::None}) {
                c.recompute = r;
                for (c.zero = 3; c.zero >= 0; --c.zero) visit(c);
              }
            }
          }
        }
      }
    }
  }
}

void compare_with_all(const PlanQuestion& question) {
  Planner planner(question), other(question);
  const PlanQuestion& q = planner.question();
  std::vector<double> times;
  std::vector<std::int64_t> most;
  for_every_layout(q, [&](const JobConfig& c) {
    if (!other.violations(c).empty()) return;
    if (other.memory(c).total() > q.cluster.memory_bytes) {
      most.push_back(0);
      return;
    }
    times.push_back(other.time(c).total());
  });
  std::ranges::sort(times);
  const PlanResult found = search(planner, {.top = 40});
  ASSERT_EQ(found.fitting, static_cast<std::int64_t>(times.size()));
  ASSERT_GE(times.size(), 40U);
  for (std::size_t i = 0; i < 40; ++i) EXPECT_DOUBLE_EQ(found.best[i].time.total(), times[i]) << i;
  std::int64_t too_large = 0;
  for (const LoserClass& c : found.losers) too_large += c.limit.starts_with("memory") ? c.count : 0;
  EXPECT_EQ(too_large, static_cast<std::int64_t>(most.size()));
}

TEST(Search, FindsWhatTryingEverythingFinds) {
  compare_with_all(small(2, 1 << 30));
  compare_with_all(small(2, 2 << 20));
}

TEST(Search, OffersWhatAJobTakes_AndSaysThatMemoryToo) {
  for (const char* model : {"gpt2", "llama3-8b"}) {
    PlanQuestion q;
    q.model = named_model(model);
    q.cluster = cluster_spec(virtual_cluster_from("dgx-h100x2"));
    q.global_batch = 64;
    Planner planner(q);
    for (PlannedLayout& p : search(planner, {.top = 15}).best) {
      EXPECT_EQ(p.memory.total(), predict_memory(16, p.config, planner.engine()).total());
      p.config.memory_bytes = p.memory.total();
      EXPECT_EQ(to_string(violations(16, p.config, planner.engine())), "");
    }
  }
}

/// V-shaped schedules, and experts whose units ZeRO 3 shards over the ranks that have copies of them.
TEST(Search, TriesVSchedules_AndShardsExperts) {
  PlanQuestion q = small(4, 1 << 30);
  q.model.feed_forward = 0;
  q.model.experts = 4;
  q.model.top_k = 2;
  q.model.expert_feed_forward = 128;
  Planner planner(q);
  std::set<std::string> schedules;
  bool shards_experts = false;
  for (const PlannedLayout& p : search(planner, {.top = 100'000}).best) {
    if (p.config.layout.pp > 1) schedules.insert(p.config.schedule);
    if (p.config.layout.ep != 2 || p.config.zero != 3 || p.config.layout.pp != 1 || p.config.layout.tp != 1) continue;
    shards_experts = true;
    // Each of 2 experts' matrices and biases lies on 4 ranks, of which each has a quarter.
    JobConfig whole = p.config;
    whole.zero = 0;
    const std::int64_t experts = 4 * 2 * (2 * 64 * 128 + 128 + 64), dense_shards = 8;
    std::int64_t dense = 0;
    for (const DataParameter& parameter : planner.engine().parameters(whole, {})) dense += parameter.elements;
    const double expected = 2 * (static_cast<double>(experts) / 4 + static_cast<double>(dense) / dense_shards);
    EXPECT_NEAR(static_cast<double>(p.memory.parameters), expected, 0.02 * expected);
  }
  EXPECT_TRUE(shards_experts);
  EXPECT_THAT(schedules, testing::IsSupersetOf({"zb-v", "dualpipev", "zb-h1", "interleaved"}));
}

TEST(Search, IsTheSameEveryTime) {
  const auto text = [] {
    Planner planner(small(4, 3 << 20));
    const PlanResult found = search(planner);
    std::string all;
    for (const PlannedLayout& p : found.best)
      all += layout_text(planner.question(), p.config) + std::to_string(p.time.total()) + "\n";
    for (const LoserClass& c : found.losers)
      all += c.limit + c.found + c.nearest + c.fix + std::to_string(c.count) + "\n";
    return all;
  };
  EXPECT_EQ(text(), text());
}

const LoserClass* loser(const PlanResult& result, const std::string& limit) {
  const auto found = std::ranges::find(result.losers, limit, &LoserClass::limit);
  return found == result.losers.end() ? nullptr : &*found;
}

TEST(Search, SaysWhyOthersLose_WithTheNearestFix) {
  Planner planner(small(8, 1500 << 10));
  const PlanResult found = search(planner);
  const LoserClass* parts = loser(found, "engine_parts");
  ASSERT_NE(parts, nullptr);
  EXPECT_EQ(parts->found, "tp 8, and this engine has 4 parts");
  EXPECT_THAT(parts->fix, HasSubstr("tp 4"));
  const LoserClass* stages = loser(found, "pipeline");
  ASSERT_NE(stages, nullptr);
  EXPECT_EQ(stages->found, "8 stages, and this engine has 4 blocks");
  const LoserClass* memory = loser(found, "memory with recompute none");
  ASSERT_NE(memory, nullptr);
  EXPECT_GT(memory->count, 0);
  EXPECT_NE(memory->fix, "");
  EXPECT_NE(loser(found, "schedule"), nullptr);  // zb-h1 wants no recomputation
}

TEST(Search, OfTooLittleMemory_FindsNothing_AndSaysSo) {
  Planner planner(small(2, 1000));
  const PlanResult found = search(planner);
  EXPECT_TRUE(found.best.empty());
  EXPECT_EQ(found.fitting, 0);
  EXPECT_NE(loser(found, "memory with recompute full"), nullptr);
}

TEST(LayoutText, IsRead_AndBreaksEveryRuleAtOnce) {
  Planner planner(small(8, 1 << 30));
  const PlanQuestion& q = planner.question();
  const JobConfig good = layout_from_text(q, "tp=2,pp=2,zero=1,micro-batch=1,schedule=interleaved,virtual-stages=2");
  EXPECT_EQ(to_string(planner.violations(good)), "");
  EXPECT_EQ(good.micro_batches, 1);
  const JobConfig v = layout_from_text(q, "tp=2,pp=2,micro-batch=1,schedule=zb-v");
  EXPECT_EQ(v.virtual_stages, 2);
  EXPECT_EQ(to_string(planner.violations(v)), "");
  const auto text = to_string(planner.violations(layout_from_text(q, "tp=3,pp=8,zero=4,schedule=zigzag")));
  EXPECT_THAT(text, AllOf(HasSubstr("dense"), HasSubstr("pipeline"), HasSubstr("zero: zero 4")));
}

TEST(LayoutText, NamesWhatItCannotRead) {
  const PlanQuestion q = small(2, 1 << 30).complete();
  const auto refusal = [&](const std::string& text) -> std::string {
    try {
      static_cast<void>(layout_from_text(q, text));
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_THAT(refusal("tp=x"), HasSubstr("tp=x: expected a whole number"));
  EXPECT_THAT(refusal("tp"), AllOf(HasSubstr("'tp'"), HasSubstr("NAME=VALUE"), HasSubstr("micro-batch")));
  EXPECT_THAT(refusal("xp=2"), HasSubstr("'xp=2'"));
  EXPECT_THAT(refusal("recompute=some"), HasSubstr("none, selective or full"));
  EXPECT_THAT(refusal("micro-batch=0"), HasSubstr("1 or more"));
  EXPECT_THAT(refusal("tp=2,pp=1,tp=1"), HasSubstr("tp is given twice"));
}

/// What would overflow, or keep a search busy for days, is refused before it begins.
TEST(PlanQuestion, RefusesWhatIsTooLarge) {
  const auto refusal = [](const auto& change) -> std::string {
    PlanQuestion q = small(2, 1 << 30);
    change(q);
    try {
      static_cast<void>(q.complete());
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  constexpr std::int64_t kHuge = std::int64_t{1} << 30;
  EXPECT_THAT(refusal([](PlanQuestion& q) { q.global_batch = kHuge; }), HasSubstr("global batch"));
  EXPECT_THAT(refusal([](PlanQuestion& q) { q.global_batch = 1000, q.sequence = kHuge; }), HasSubstr("tokens at most"));
  EXPECT_THAT(refusal([](PlanQuestion& q) { q.model.hidden = q.model.feed_forward = kHuge; }), HasSubstr("parameters"));
  EXPECT_THAT(refusal([](PlanQuestion& q) { q.cluster.flops = 1; }), HasSubstr("operations a second"));
  EXPECT_EQ(refusal([](PlanQuestion&) {}), "");
}

/// A loser's time, and that of its fix, are what those layouts take: none is faster than the best.
TEST(Search, SaysOfLosersWhatTheyTake) {
  PlanQuestion q = small(2, 1 << 30);
  Planner planner(q);
  const PlanResult found = search(planner, {.top = 3});
  int judged = 0;
  for (const LoserClass& c : found.losers) {
    if (!c.found.ends_with("beyond the best's")) continue;
    ++judged;
    EXPECT_GE(std::stod(c.found) + 5e-4, found.best.back().time.total()) << c.limit;
    if (const std::size_t at = c.fix.rfind(": "); at != std::string::npos) {
      EXPECT_GE(std::stod(c.fix.substr(at + 2)) + 5e-4, found.best.front().time.total()) << c.fix;
    }
  }
  EXPECT_GT(judged, 0);
}

TEST(PlanQuestion, ListsAllThatIsWrong) {
  PlanQuestion q = small(2, 1 << 30);
  q.sequence = -1;
  q.efficiency = 2;
  try {
    static_cast<void>(q.complete());
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(std::string(e.what()), AllOf(HasSubstr("sequence: -1"), HasSubstr("efficiency: 2")));
  }
  EXPECT_THROW(cluster_spec(virtual_cluster_from("xeon-2sx2"), {.flops = 0.0}), Error);
  EXPECT_THROW(cluster_spec(virtual_cluster_from("xeon-2s:1+2")), Error);
}

}  // namespace
}  // namespace sinew::parallel
