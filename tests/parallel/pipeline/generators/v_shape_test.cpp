#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>

#include <sinew/parallel/pipeline/generators/generators.hpp>
#include <sinew/parallel/pipeline/passes/passes.hpp>
#include <sinew/parallel/pipeline/schedule/csv.hpp>
#include <sinew/parallel/pipeline/timeline/simulate.hpp>
#include <sinew/parallel/pipeline/verify/overlap_pairs.hpp>
#include <sinew/parallel/pipeline/verify/prove.hpp>

#include "../refusals.hpp"

namespace sinew::parallel {
namespace {

/// Costs of one stage of two on each rank.
struct Times {
  std::int64_t f = 1, i = 1, w = 1;

  std::int64_t b() const noexcept { return i + w; }
  std::int64_t all(std::int32_t micro_batches) const noexcept { return 2 * micro_batches * (f + b()); }
  PipelineCosts costs() const { return {.stages = {{f, b(), i, w, f}}}; }
  /// The costs of a stage that has the layers of both stages of a rank.
  PipelineCosts of_both() const { return {.stages = {{2 * f, 2 * b(), 2 * i, 2 * w, 2 * f}}}; }
};

/// The time that a rank idles between its first and its last action.
std::int64_t idle_within(const PipelineTimeLine& line, std::int32_t rank) {
  const auto& spans = line.spans[std::size_t(rank)];
  return spans.back().end - spans.front().start - line.busy[std::size_t(rank)];
}

std::int64_t sends(const PipelineSchedule& schedule) {
  std::int64_t sum = 0;
  for (const std::vector<Action>& actions : schedule.actions) {
    for (const Action& a : actions)
      sum += a.kind == ActionKind::SendActivation || a.kind == ActionKind::SendGradient ? 1 : 0;
  }
  return sum;
}

/// Proves the schedule with the messages that it has, and with the strictest buffering.
LiveActivations proved(const PipelineSchedule& schedule) {
  const PipelineVerdict verdict = prove(with_messages(schedule), {.most_under_way = 0});
  EXPECT_TRUE(verdict) << schedule.name << ": " << verdict.reason;
  return verdict.live;
}

/// Followed by hand.
TEST(ZeroBubbleV, WritesASmallSchedule) {
  EXPECT_EQ(to_csv(zero_bubble_v(2, 3)),
            "0F0,0F1,0F2,3F0,3I0,3W0,3F1,3I1,3W1,0I0,0W0,3F2,3I2,3W2,0I1,0W1,0I2,0W2\n"
            "1F0,2F0,1F1,2F1,2I0,2W0,1F2,1I0,1W0,2F2,2I1,2W1,1I1,2I2,1I2,1W1,2W2,1W2\n");
}

TEST(ZeroBubbleV, HasNoBubble_WithTheMemoryOf1F1B) {
  for (std::int32_t p = 2; p <= 16; ++p) {
    for (const std::int32_t m : {2 * p - 1, 2 * p, 3 * p + 1, 64}) {
      const PipelineSchedule schedule = zero_bubble_v(p, m);
      const LiveActivations live = proved(schedule);
      const PipelineTimeLine line = simulate(schedule);
      EXPECT_EQ(line.makespan, 6 * m + p - 1) << "p " << p << " m " << m;
      const std::int32_t as_1f1b = prove(one_forward_one_backward(p, m), {.messages = false}).live.by_rank[0];
      for (std::int32_t r = 0; r < p; ++r) {
        EXPECT_EQ(idle_within(line, r), 0) << "p " << p << " m " << m << " rank " << r;
        EXPECT_EQ(line.spans[std::size_t(r)].front().start, r);
        EXPECT_EQ(live.by_rank[std::size_t(r)], 2 * as_1f1b) << "of stages that are half as large";
      }
      EXPECT_EQ(sends(with_messages(schedule)), 2 * sends(with_messages(one_forward_one_backward(p, m))));
    }
  }
}

TEST(ZeroBubbleV, IdlesAsLongWithAnyNumberOfMicroBatches_WhereTimesDiffer) {
  for (std::int32_t p = 2; p <= 16; ++p) {
    for (const Times& t : {Times{10, 10, 10},
                           {10, 11, 9},
                           {10, 13, 7},
                           {12, 10, 10},
                           {10, 10, 12},
                           {3, 5, 4},
                           {9, 8, 20},
                           {1, 1, 5},
                           {7, 5, 4}}) {
      const std::int64_t longer = std::max(t.f, t.i), more = std::max({std::int64_t{0}, t.f - t.i, t.w - longer});
      const std::int64_t idle = (p - 1) * longer + (p - 2) * more;
      for (const std::int32_t m : {2 * p - 1, 2 * p, 5 * p}) {
        const PipelineTimeLine line = simulate(zero_bubble_v(p, m), t.costs());
        EXPECT_EQ(line.makespan, t.all(m) + idle) << "p " << p << " m " << m << " F " << t.f << " I " << t.i;
        EXPECT_LT(line.makespan, simulate(one_forward_one_backward(p, m), t.of_both()).makespan);
      }
    }
  }
}

TEST(ZeroBubbleV, IsFasterThanZeroBubbleH1_InTheSameMemory) {
  for (std::int32_t p = 2; p <= 16; ++p) {
    const Times equal{};
    const std::int64_t of_h1 = simulate(zero_bubble_h1(p, 4 * p), equal.of_both()).makespan;
    EXPECT_EQ(of_h1 - simulate(zero_bubble_v(p, 4 * p), equal.costs()).makespan, p - 1);
  }
}

TEST(VShapes, TakeAnyNumberOfMicroBatches) {
  for (std::int32_t p = 1; p <= 16; ++p) {
    for (std::int32_t m = 1; m < 2 * p; ++m) {
      for (const auto& [make, most] : {std::tuple(&zero_bubble_v, 2 * p), {&dual_pipe_v, 2 * p + 1}}) {
        const PipelineSchedule schedule = make(p, m);
        EXPECT_LE(std::ranges::max(proved(schedule).by_rank), most) << schedule.name << " p " << p << " m " << m;
        const std::int64_t of_1f1b = simulate(one_forward_one_backward(p, m), Times{}.of_both()).makespan;
        EXPECT_LE(simulate(schedule).makespan, of_1f1b) << schedule.name << " p " << p << " m " << m;
      }
    }
  }
}

TEST(DualPipeV, IdlesAndKeepsAsPublished) {
  for (std::int32_t p = 2; p <= 16; ++p) {
    for (const std::int32_t m : {2 * p, 2 * p + 1, 3 * p, 64}) {
      const PipelineSchedule schedule = dual_pipe_v(p, m);
      for (const std::int32_t live : proved(schedule).by_rank) EXPECT_EQ(live, 2 * p + 1) << "PP + 1, PP = 2p";
      // One pass after the other, gradients of a backward pass go on before those of the next pass.
      const PipelineTimeLine line = simulate(schedule);
      EXPECT_EQ(line.makespan, 6 * m + p - 1) << "p " << p << " m " << m;
      EXPECT_LT(line.makespan, simulate(one_forward_one_backward(p, m), Times{}.of_both()).makespan);
    }
  }
}

/// The longest time that a rank idles if pairs run as one: from when the inputs of both are there, for `together`.
/// -1: the ranks wait for each other in a cycle.
class PairsAsOne {
 public:
  PairsAsOne(const PipelineSchedule& schedule, const Times& times, std::int64_t together)
      : schedule_(schedule), times_(times), together_(together) {
    for (const OverlapPair& pair : overlap_pairs(schedule)) second_[{pair.rank, pair.forward}] = pair.backward;
  }

  std::int64_t longest_idle() {
    std::vector<std::size_t> next(schedule_.actions.size(), 0);
    std::vector<std::int64_t> now(next.size(), 0), busy(next.size(), 0);
    for (bool moves = true; moves;) {
      moves = false;
      for (std::size_t r = 0; r < next.size(); ++r) {
        while (next[r] < schedule_.actions[r].size()) {
          const auto pair = second_.find({std::int32_t(r), std::int32_t(next[r])});
          const std::size_t last = pair == second_.end() ? next[r] : std::size_t(pair->second);
          std::int64_t start = now[r];
          for (std::size_t i = next[r]; i <= last; ++i) start = std::max(start, ready(schedule_.actions[r][i], now[r]));
          if (start == kNever) break;
          const std::int64_t cost = last > next[r] ? together_ : cost_of(schedule_.actions[r][last].kind);
          for (std::size_t i = next[r]; i <= last; ++i) end(schedule_.actions[r][i], start + cost);
          now[r] = start + cost;
          busy[r] += cost;
          next[r] = last + 1;
          moves = true;
        }
      }
    }
    for (std::size_t r = 0; r < next.size(); ++r) {
      if (next[r] < schedule_.actions[r].size()) return -1;
    }
    return std::ranges::max(now) - std::ranges::min(busy);
  }

 private:
  static constexpr std::int64_t kNever = std::int64_t{1} << 60;
  using Result = std::tuple<bool, std::int32_t, std::int32_t>;  // gradient or not, stage, micro-batch

  std::int64_t cost_of(ActionKind kind) const {
    if (kind == ActionKind::Forward) return times_.f;
    if (kind == ActionKind::Backward) return times_.b();
    return kind == ActionKind::InputGradient ? times_.i : times_.w;
  }
  std::int64_t ready(const Action& a, std::int64_t otherwise) const {
    const bool forward = a.kind == ActionKind::Forward;
    const std::int32_t from = a.stage + (forward ? -1 : 1);
    if (a.kind == ActionKind::WeightGradient || from < 0 || from == schedule_.stages()) return otherwise;
    const auto found = ends_.find({!forward, from, a.micro_batch});
    return found == ends_.end() ? kNever : found->second;
  }
  void end(const Action& a, std::int64_t time) {
    if (a.kind != ActionKind::WeightGradient) ends_[{a.kind != ActionKind::Forward, a.stage, a.micro_batch}] = time;
  }

  const PipelineSchedule& schedule_;
  Times times_;
  std::int64_t together_;
  std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> second_;  // of a rank and a forward pass
  std::map<Result, std::int64_t> ends_;
};

/// (PP/2-1) (F&B + B - 3W) for PP = 2p stages. Source: the table in the README of DeepSeek's DualPipe.
TEST(DualPipeV, IdlesAsPublished_WherePairsOverlap) {
  for (std::int32_t p = 2; p <= 16; p += p < 6 ? 1 : 5) {
    for (const std::int32_t m : {2 * p, 2 * p + 1, 4 * p}) {
      for (const Times& t : {Times{10, 10, 10}, {10, 12, 9}, {8, 10, 4}, {10, 10, 7}, {3, 9, 9}}) {
        for (const std::int64_t together : {t.f + t.b(), t.f + t.b() - t.f / 2, t.b()}) {
          const PipelineSchedule schedule = dual_pipe_v(p, m);
          EXPECT_EQ(PairsAsOne(schedule, t, together).longest_idle(), (p - 1) * (together + t.b() - 3 * t.w))
              << "p " << p << " m " << m << " F " << t.f << " I " << t.i << " W " << t.w << " F&B " << together;
        }
        // Alone, passes begin as soon as each can.
        EXPECT_LE(simulate(dual_pipe_v(p, m), t.costs()).makespan - t.all(m), (p - 1) * (t.f + 2 * t.b() - 3 * t.w));
      }
    }
  }
}

TEST(OverlapPairs, NeverWaitInACycle) {
  for (const NamedGenerator& g : generators()) {
    for (std::int32_t p = 1; p <= 9; ++p) {
      for (std::int32_t m = 1; m <= 2 * p + 3; ++m)
        EXPECT_GE(PairsAsOne(g.make(p, m, g.virtual_stages(2)), Times{}, 3).longest_idle(), 0)
            << g.name << " p " << p << " m " << m;
    }
  }
}

TEST(OverlapPairs, AreOfMicroBatchesThatDoNotNeedEachOther) {
  using Pairs = std::vector<OverlapPair>;
  // 0F0 0F1 0B0 0F2 0B1 0B2, and on rank 1 1F0 1B0 ...
  EXPECT_EQ(overlap_pairs(one_forward_one_backward(2, 3)), (Pairs{{0, 1, 2}, {0, 3, 4}}));
  // 0F0 0SEND_F0 0RECV_B0 0F1 0SEND_F1 0B0 0RECV_B1 0F2 0SEND_F2 0RECV_B2 0B1 0B2
  EXPECT_EQ(overlap_pairs(with_messages(one_forward_one_backward(2, 3))), (Pairs{{0, 3, 5}, {0, 7, 10}}));
  // 0F0 0F1 0B0 0B1 and 1F0 1F1 1B0 1B1: 0B0 waits for 1B0, which comes after 1F1, which waits for 0F1.
  EXPECT_EQ(overlap_pairs(gpipe(2, 2)), (Pairs{{1, 1, 2}}));
  EXPECT_TRUE(overlap_pairs(zero_bubble_v(3, 8)).empty()) << "it has no whole backward passes";
  EXPECT_TRUE(overlap_pairs(with_recompute(one_forward_one_backward(2, 3))).empty())
      << "they come after another compute";
  PipelineSchedule schedule = gpipe(2, 2);
  schedule.actions[1].pop_back();
  EXPECT_THAT(test::refusal_of([&] { (void)overlap_pairs(schedule); }),
              ::testing::HasSubstr("overlap_pairs: rank 1: there is no 1B1"));
}

}  // namespace
}  // namespace sinew::parallel
