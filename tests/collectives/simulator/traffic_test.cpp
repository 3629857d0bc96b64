#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/collectives/simulator/traffic.hpp>

namespace sinew {
namespace {

/// When each flow ends, by token, once all have started.
std::vector<Seconds> ends_of(Traffic& traffic, std::size_t flows) {
  std::vector<Seconds> ends(flows, -1);
  std::vector<std::uint64_t> ended;
  traffic.settle(0);
  for (Seconds next = traffic.next_end(); next != Traffic::kNever; next = traffic.next_end()) {
    ended.clear();
    traffic.take_ended(next, ended);
    for (const std::uint64_t token : ended) ends[token] = next;
    traffic.settle(next);
  }
  return ends;
}

TEST(Traffic, GivesAFlowAloneTheWholeLink) {
  Traffic traffic({100});
  traffic.start(traffic.add_path({{0}}), 250, 0, 0);
  EXPECT_DOUBLE_EQ(ends_of(traffic, 1)[0], 2.5);
}

/// 50 bytes per second each until the short one is gone at 2 s; then 200 of 300 bytes are left, at 100.
TEST(Traffic, HalvesALinkBetweenTwo_UntilOneIsGone) {
  for (const bool same_path : {true, false}) {
    Traffic traffic({100});
    const int first = traffic.add_path({{0}});
    const int second = same_path ? first : traffic.add_path({{0}});
    traffic.start(first, 100, 0, 0);
    traffic.start(second, 300, 1, 0);
    EXPECT_EQ(ends_of(traffic, 2), (std::vector<Seconds>{2, 4})) << same_path;
  }
}

/// Links of 10 and 4: one flow on each and one on both. The second link is the bottleneck: 2 for each of its flows,
/// which leaves 8 to the one on the first link alone. (Halves everywhere would be 5 for it.)
TEST(Traffic, GivesWhatABottleneckLeaves_ToOthers) {
  Traffic traffic({10, 4});
  const int wide = traffic.add_path({{0}}), both = traffic.add_path({{0}, {1}}), narrow = traffic.add_path({{1}});
  for (const int p : {wide, both, narrow}) traffic.start(p, 80, static_cast<std::uint64_t>(p), 0);
  traffic.settle(0);
  EXPECT_DOUBLE_EQ(traffic.rate(wide), 8);
  EXPECT_DOUBLE_EQ(traffic.rate(both), 2);
  EXPECT_DOUBLE_EQ(traffic.rate(narrow), 2);
}

/// One flow that stands for three, and one: a quarter of 12 for each, until 15 bytes are through.
TEST(Traffic, CountsAFlowAsOftenAsItStandsForOthers) {
  Traffic traffic({12});
  const int three = traffic.add_path({{0, 3}}), one = traffic.add_path({{0, 1}});
  traffic.start(three, 30, 0, 0);
  traffic.start(one, 15, 1, 0);
  EXPECT_EQ(ends_of(traffic, 2), (std::vector<Seconds>{8.75, 5}));
}

TEST(Traffic, LetsAFlowJoin_WhileOthersAreUnderWay) {
  Traffic traffic({100});
  const int path = traffic.add_path({{0}});
  traffic.start(path, 200, 0, 0);
  traffic.settle(0);
  traffic.start(path, 50, 1, 1);  // 100 of the first are left
  traffic.settle(1);
  EXPECT_DOUBLE_EQ(traffic.next_end(), 2);
  std::vector<std::uint64_t> ended;
  traffic.take_ended(2, ended);
  EXPECT_EQ(ended, std::vector<std::uint64_t>{1});
  traffic.settle(2);
  EXPECT_DOUBLE_EQ(traffic.next_end(), 2.5);
}

struct Crowd {
  std::vector<double> capacity;
  std::vector<std::vector<Traffic::Use>> paths;
  std::vector<int> flows;  // by path
};

/// Rates are max-min fair exactly if no link is overfull, and each flow has a full link on which none is faster.
/// Source: Bertsekas and Gallager, Data Networks, 1992, section 6.5.2.
bool is_fair(const Crowd& crowd, const std::vector<double>& rate) {
  std::vector<double> used(crowd.capacity.size()), fastest(crowd.capacity.size());
  for (std::size_t p = 0; p < crowd.paths.size(); ++p) {
    if (crowd.flows[p] == 0) continue;
    for (const Traffic::Use& use : crowd.paths[p]) {
      const auto l = static_cast<std::size_t>(use.link);
      used[l] += crowd.flows[p] * use.times * rate[p];
      fastest[l] = std::max(fastest[l], rate[p]);
    }
  }
  for (std::size_t l = 0; l < used.size(); ++l) {
    if (used[l] > crowd.capacity[l] * (1 + 1e-9)) return false;
  }
  for (std::size_t p = 0; p < crowd.paths.size(); ++p) {
    const bool has_bottleneck = std::ranges::any_of(crowd.paths[p], [&](const Traffic::Use& use) {
      const auto l = static_cast<std::size_t>(use.link);
      return used[l] > crowd.capacity[l] * (1 - 1e-9) && rate[p] > fastest[l] * (1 - 1e-9);
    });
    if (crowd.flows[p] > 0 && !has_bottleneck) return false;
  }
  return true;
}

TEST(Traffic, IsMaxMinFair_WhileFlowsComeAndGo) {
  std::mt19937 random(7);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  int unfair_halves = 0;
  for (int round = 0; round < 200; ++round) {
    Crowd crowd;
    for (int l = 0; l < 1 + below(8); ++l) crowd.capacity.push_back(1 + below(20));
    Traffic traffic(crowd.capacity);
    for (int p = 0; p < 1 + below(12); ++p) {
      std::set<int> links;
      for (int k = 0; k < 1 + below(3); ++k) links.insert(below(static_cast<int>(crowd.capacity.size())));
      std::vector<Traffic::Use> uses;
      for (const int l : links) uses.push_back({l, 0.5 * (1 + below(4))});
      traffic.add_path(uses);
      crowd.paths.push_back(uses);
    }
    crowd.flows.assign(crowd.paths.size(), 0);
    std::vector<std::size_t> path_of;
    Seconds now = 0;
    std::vector<std::uint64_t> ended;
    for (int event = 0; event < 40; ++event) {
      for (int k = 0; event < 20 && k < 1 + below(3); ++k) {
        const auto p = static_cast<std::size_t>(below(static_cast<int>(crowd.paths.size())));
        traffic.start(static_cast<int>(p), 1 + below(100), path_of.size(), now);
        path_of.push_back(p);
        ++crowd.flows[p];
      }
      traffic.settle(now);
      std::vector<double> rates, halves;
      for (std::size_t p = 0; p < crowd.paths.size(); ++p) {
        rates.push_back(traffic.rate(static_cast<int>(p)));
        halves.push_back(rates.back() / 2);
      }
      ASSERT_TRUE(is_fair(crowd, rates)) << "round " << round << ", event " << event;
      if (traffic.next_end() == Traffic::kNever) break;
      if (!is_fair(crowd, halves)) ++unfair_halves;
      now = traffic.next_end();
      ended.clear();
      traffic.take_ended(now, ended);
      for (const std::uint64_t token : ended) --crowd.flows[path_of[token]];
    }
  }
  EXPECT_GT(unfair_halves, 1000);  // the judge can say no
}

}  // namespace
}  // namespace sinew
