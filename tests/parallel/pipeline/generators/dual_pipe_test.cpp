#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sinew/parallel/pipeline/generators/generators.hpp>
#include <sinew/parallel/pipeline/passes/passes.hpp>
#include <sinew/parallel/pipeline/schedule/action_text.hpp>
#include <sinew/parallel/pipeline/schedule/csv.hpp>
#include <sinew/parallel/pipeline/verify/overlap_pairs.hpp>
#include <sinew/parallel/pipeline/verify/prove.hpp>

#include "../executor.hpp"

namespace sinew::parallel {
namespace {

/// The row of a rank of DualPipeV, whose ranks have a stage on the way down and one on the way up (0 and 1 below).
/// Source: the published program of DeepSeek's DualPipe; two passes at once are written as PyTorch does.
class DualPipeV {
 public:
  DualPipeV(int ranks, int micro_batches, int rank) : stages_{rank, 2 * ranks - 1 - rank} {
    const int p = ranks, n = micro_batches, r = rank;
    times(2 * (p - r - 1), [&] { add(pass('F', 0)); });
    times(r + 1, [&] { add(pass('F', 0)), add(pass('F', 1)); });
    times(p - r - 1, [&] { add(pass('I', 1)), add(pass('W', 0)), add(pass('F', 1)); });
    times(n - 2 * p + r + 1, [&] { together(0, 1), together(1, 0); });
    times(p - r - 1, [&] { add(pass('B', 1)), together(1, 0); });
    for (int i = 0; i < 2 * (r + 1); ++i) add(pass(i <= r ? 'B' : 'I', 1 - i % 2));
    times(p - r - 1, [&] { add(pass('W', 0)), add(pass('I', 0)); });
    times(r + 1, [&] { add(pass('W', 0)); });
  }

  const std::string& row() const { return row_; }
  const std::vector<std::string>& pairs() const { return pairs_; }

 private:
  template <class Do>
  static void times(int count, Do&& what) {
    for (int i = 0; i < count; ++i) what();
  }

  void add(const std::string& cell) { row_ += (row_.empty() ? "" : ",") + cell; }
  /// The forward pass of a phase beside the backward pass of another.
  void together(int forward, int backward) {
    const std::string first = pass('F', forward);
    pairs_.push_back(fmt::format("({};{})OVERLAP_F_B", first, pass('B', backward)));
    add(pairs_.back());
  }

  /// The next pass of its kind; of W the first that an I has left, of whatever phase.
  std::string pass(char kind, int phase) {
    if (kind == 'W') {
      const std::string left = left_.front();
      left_.pop_front();
      return left;
    }
    int& next = (kind == 'F' ? forward_ : backward_)[phase];
    if (kind == 'I') left_.push_back(fmt::format("{}W{}", stages_[phase], next));
    return fmt::format("{}{}{}", stages_[phase], kind, next++);
  }

  int stages_[2];
  int forward_[2] = {}, backward_[2] = {};
  std::deque<std::string> left_;
  std::string row_;
  std::vector<std::string> pairs_;
};

std::vector<std::string> pairs_of(const PipelineSchedule& schedule) {
  std::vector<std::string> texts;
  for (const OverlapPair& pair : overlap_pairs(schedule)) {
    const std::vector<Action>& actions = schedule.actions[std::size_t(pair.rank)];
    texts.push_back(fmt::format("({};{})OVERLAP_F_B", to_string(actions[std::size_t(pair.forward)]),
                                to_string(actions[std::size_t(pair.backward)])));
  }
  return texts;
}

TEST(DualPipeV, IsMadeAsPublished_AndRuns) {
  std::mt19937 random(5);
  for (const int p : {1, 2, 3, 4, 8}) {
    for (const int n : {2 * p, 2 * p + 1, 5 * p}) {
      std::string csv;
      std::vector<std::string> marked;
      for (int r = 0; r < p; ++r) {
        const DualPipeV published(p, n, r);
        csv += published.row() + "\n";
        std::ranges::copy(published.pairs(), std::back_inserter(marked));
      }
      const PipelineSchedule alone = from_csv(csv, "DualPipeV");
      EXPECT_EQ(alone.actions, dual_pipe_v(p, n).actions) << "p " << p << " n " << n;
      EXPECT_EQ(pairs_of(alone), marked) << "p " << p << " n " << n;
      const PipelineSchedule schedule = with_messages(alone);
      const PipelineVerdict verdict = prove(schedule, {.most_under_way = 0});
      ASSERT_TRUE(verdict) << verdict.reason;
      EXPECT_LE(std::ranges::max(verdict.live.by_rank), 2 * (p + 1)) << "p + 1 of both stages, as published";
      EXPECT_EQ(test::execute(schedule, random, 0), "");
    }
  }
}

}  // namespace
}  // namespace sinew::parallel
