#include <algorithm>
#include <map>
#include <tuple>

#include <gtest/gtest.h>

#include <sinew/collectives/selection/recipe.hpp>
#include <support/sanitized.hpp>
#include <support/schedules.hpp>

namespace sinew {
namespace {

using test::PlacingKind;

/// What a schedule costs by its own steps. A chunk weighs its part of CollectiveDesc::bytes(ranks), all being equal.
class Measured {
 public:
  explicit Measured(const Schedule& schedule) : schedule_(schedule), ranks_(schedule.programs.size()) {
    for (const Program& p : schedule.programs) reached_.emplace_back(p.steps.size());
    bool more = true;
    while (more) more = sweep();
  }

  AlgorithmCost cost() const {
    AlgorithmCost cost;
    for (std::size_t r = 0; r < ranks_; ++r) {
      double sent = 0;
      double received = 0;
      double reduced = 0;
      for (std::size_t i = 0; i < reached_[r].size(); ++i) {
        const Step& s = schedule_.programs[r].steps[i];
        cost.rounds = std::max(cost.rounds, reached_[r][i].messages);
        cost.serial = std::max(cost.serial, reached_[r][i].moved);
        if (s.op == Op::Send) sent += weight(s.a);
        if (s.op == Op::Recv) received += weight(s.dst);
        if (s.op == Op::Reduce || (s.op == Op::Recv && s.a.count > 0)) reduced += weight(s.dst);
      }
      cost.sent = std::max(cost.sent, sent);
      cost.received = std::max(cost.received, received);
      cost.reduced = std::max(cost.reduced, reduced);
    }
    cost.pipelined = !leads_back();
    for (const Program& p : schedule_.programs) {
      const auto chunks = static_cast<std::uint32_t>(p.scratch_class.size());
      cost.scratch = std::max(cost.scratch, weight({Space::Scratch, 0, chunks}));
      cost.whole = cost.whole || p.whole;
    }
    return cost;
  }

 private:
  /// The longest chains that end with a step.
  struct Reached {
    bool known = false;
    double messages = 0;
    double moved = 0;
  };

  /// Does some rank get a message that one of its own may have led to, by whatever way?
  bool leads_back() const {
    std::vector<std::vector<bool>> leads(ranks_, std::vector<bool>(ranks_));
    for (const Program& p : schedule_.programs) {
      for (const Step& s : p.steps) {
        if (s.op == Op::Send) leads[static_cast<std::size_t>(p.rank)][static_cast<std::size_t>(s.peer)] = true;
      }
    }
    for (std::size_t by = 0; by < ranks_; ++by) {
      for (std::size_t from = 0; from < ranks_; ++from) {
        for (std::size_t to = 0; leads[from][by] && to < ranks_; ++to) {
          if (leads[by][to]) leads[from][to] = true;
        }
      }
    }
    for (std::size_t r = 0; r < ranks_; ++r) {
      if (leads[r][r]) return true;
    }
    return false;
  }

  double weight(Slice s) const {
    if (schedule_.desc.collective == Collective::Barrier) return 0;
    std::size_t chunks = 1;  // of the larger buffer
    for (const Program& p : schedule_.programs) chunks = std::max({chunks, p.in_class.size(), p.out_class.size()});
    return static_cast<double>(s.count) / static_cast<double>(chunks);
  }

  Reached before(std::size_t rank, const Step& s) const {
    Reached all{.known = true};
    for (std::uint32_t k = 0; k < s.deps.count; ++k) {
      const Reached& d = reached_[rank][schedule_.programs[rank].dependencies[s.deps.first + k]];
      all = {all.known && d.known, std::max(all.messages, d.messages), std::max(all.moved, d.moved)};
    }
    return all;
  }

  bool sweep() {
    bool changed = false;
    std::map<std::tuple<std::size_t, std::size_t, std::uint32_t>, std::pair<std::size_t, Reached>> sends;
    for (std::size_t r = 0; r < ranks_; ++r) {
      for (std::size_t i = 0; i < reached_[r].size(); ++i) {
        const Step& s = schedule_.programs[r].steps[i];
        const Reached start = before(r, s);
        if (!start.known || reached_[r][i].known) continue;
        if (s.op == Op::Send) sends[{r, s.peer, s.match}] = {i, start};
        if (s.op != Op::Copy && s.op != Op::Reduce) continue;
        reached_[r][i] = start;
        changed = true;
      }
    }
    for (std::size_t r = 0; r < ranks_; ++r) {
      for (std::size_t i = 0; i < reached_[r].size(); ++i) {
        const Step& s = schedule_.programs[r].steps[i];
        if (s.op != Op::Recv || reached_[r][i].known) continue;
        const Reached start = before(r, s);
        const auto send = sends.find({s.peer, r, s.match});
        if (!start.known || send == sends.end()) continue;
        const auto& [step, theirs] = send->second;
        const Reached done{true, std::max(start.messages, theirs.messages) + 1,
                           std::max(start.moved, theirs.moved) + weight(s.dst)};
        reached_[r][i] = reached_[static_cast<std::size_t>(s.peer)][step] = done;
        changed = true;
      }
    }
    return changed;
  }

  const Schedule& schedule_;
  std::size_t ranks_;
  std::vector<std::vector<Reached>> reached_;
};

class CostOn : public ::testing::TestWithParam<int> {};

TEST_P(CostOn, IsWhatTheScheduleDoes) {
  const int ranks = GetParam();
  test::for_each_schedule(ranks, [&](const Algorithm& a, const CollectiveDesc& desc, PlacingKind placing) {
    // A v-form sends chunk by chunk what its plain form sends as one message: as many rounds at most.
    if (desc.op != ReduceOp::Sum || is_v_form(a.collective)) return;
    SCOPED_TRACE(test::label(a, desc, ranks, placing));
    const AlgorithmCost stated = a.cost(desc, ranks);
    const AlgorithmCost found = Measured(Recipe(a).build_all(desc, test::in_place(placing, ranks))).cost();
    EXPECT_DOUBLE_EQ(stated.rounds, found.rounds);
    EXPECT_NEAR(stated.sent, found.sent, 1e-9);
    EXPECT_NEAR(stated.received, found.received, 1e-9);
    EXPECT_NEAR(stated.serial, found.serial, 1e-9);
    EXPECT_NEAR(stated.reduced, found.reduced, 1e-9);
    EXPECT_LE(found.scratch, stated.scratch + 1e-9);
    EXPECT_TRUE(stated.whole || !found.whole || ranks == 1);
    EXPECT_TRUE(found.pipelined || !stated.pipelined);
  });
}

/// A bound that is much too high would keep a good algorithm from being taken.
TEST_P(CostOn, IsNoIdleBound_OfScratch) {
  const int ranks = GetParam();
  std::map<std::string, std::pair<AlgorithmCost, AlgorithmCost>>
      all;  // stated and found, whatever the root and placing
  test::for_each_schedule(ranks, [&](const Algorithm& a, const CollectiveDesc& desc, PlacingKind placing) {
    if (desc.op != ReduceOp::Sum || is_v_form(a.collective)) return;
    auto& [stated, found] = all[std::string(a.name) + " of " + std::string(name_of(a.collective))];
    const AlgorithmCost cost = Measured(Recipe(a).build_all(desc, test::in_place(placing, ranks))).cost();
    stated = a.cost(desc, ranks);
    found.scratch = std::max(found.scratch, cost.scratch);
    found.whole = found.whole || cost.whole;
  });
  for (const auto& [name, both] : all) {
    EXPECT_LE(both.first.scratch, 2 * both.second.scratch + 1e-9) << name;
    if (ranks > 1) {
      EXPECT_EQ(both.first.whole, both.second.whole) << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, CostOn, ::testing::Range(1, test::kSanitized ? 10 : 41));

}  // namespace
}  // namespace sinew
