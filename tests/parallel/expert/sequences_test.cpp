#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/common/keyed_random.hpp>
#include <sinew/parallel/expert/balance_loss.hpp>
#include <sinew/parallel/expert/capacity.hpp>
#include <support/worlds.hpp>

// What is counted over whole sequences is the same however these are cut.
namespace sinew::parallel {
namespace {

constexpr std::int64_t kSequences = 3, kLength = 11, kExperts = 5, kTopK = 2;

RouterShape shape() { return {.name = "r", .experts = kExperts, .top_k = kTopK}; }

/// Logits of a token, of which some are alike.
std::vector<double> logits_of(std::int64_t token) {
  const KeyedRandom random(5, "logits");
  std::vector<double> logits;
  for (std::int64_t e = 0; e < kExperts; ++e)
    logits.push_back(token % 4 == 0
                         ? static_cast<double>(e == 1)
                         : random.normal(static_cast<std::uint64_t>(token * kExperts + e)) + (e == 1 ? 1 : 0));
  return logits;
}

/// What a rank has: every `ranks`-th token, the last one first, or pieces of unequal lengths.
std::vector<std::int64_t> tokens_of(int rank, int ranks, bool in_pieces) {
  std::vector<std::int64_t> mine;
  for (std::int64_t t = kSequences * kLength; t-- > 0;) {
    const std::int64_t owner = in_pieces ? std::min<std::int64_t>(t % kLength / 2, ranks - 1) : t % ranks;
    if (owner == rank) mine.push_back(t);
  }
  return mine;
}

struct Mine {
  Mine(const std::vector<std::int64_t>& tokens) {
    where = {.sequences = kSequences, .length = kLength, .sequence = {}, .position = {}};
    std::vector<double> logits;
    for (const std::int64_t t : tokens) {
      const std::vector<double> of = logits_of(t);
      logits.insert(logits.end(), of.begin(), of.end());
      where.sequence.push_back(static_cast<std::int32_t>(t / kLength));
      where.position.push_back(static_cast<std::int32_t>(t % kLength));
    }
    routed = Router<double>(shape()).route(logits, static_cast<std::int64_t>(tokens.size()));
  }
  TokenPositions where;
  Routed<double> routed;
};

/// Assignments (token, expert) that are kept, by their definition.
std::vector<std::pair<std::int64_t, std::int32_t>> kept_by_definition(std::int64_t capacity, DropPolicy policy) {
  std::vector<std::int64_t> all;
  for (std::int64_t t = 0; t < kSequences * kLength; ++t) all.push_back(t);
  const Mine whole(all);
  std::vector<std::pair<std::int64_t, std::int32_t>> kept;
  for (std::int64_t s = 0; s < kSequences; ++s) {
    for (std::int32_t e = 0; e < kExperts; ++e) {
      std::vector<std::pair<double, std::int64_t>> claims;
      for (std::int64_t t = s * kLength; t < (s + 1) * kLength; ++t) {
        for (std::int64_t i = t * kTopK; i < (t + 1) * kTopK; ++i) {
          if (whole.routed.chosen[static_cast<std::size_t>(i)] != e) continue;
          claims.emplace_back(
              policy == DropPolicy::Probability ? -whole.routed.routing.gates[static_cast<std::size_t>(i)] : 0, t);
        }
      }
      std::sort(claims.begin(), claims.end());
      for (std::size_t i = 0; i < claims.size() && i < static_cast<std::size_t>(capacity); ++i)
        kept.emplace_back(claims[i].second, e);
    }
  }
  std::sort(kept.begin(), kept.end());
  return kept;
}

TEST(Capacity, DropsTheSameTokens_HoweverSequencesAreCut) {
  for (const DropPolicy policy : {DropPolicy::Position, DropPolicy::Probability}) {
    const std::int64_t capacity = 4;  // ceil(11 * 2 / 5 * 0.8)
    const auto expected = kept_by_definition(capacity, policy);
    ASSERT_LT(expected.size(), static_cast<std::size_t>(kSequences * kLength * kTopK));
    for (const auto& [ranks, in_pieces] : {std::pair(1, false), {2, false}, {3, true}, {4, true}, {5, false}}) {
      std::mutex mutex;
      std::vector<std::pair<std::int64_t, std::int32_t>> kept;
      std::int64_t dropped = 0;
      test::on_threads(ranks, test::only("inproc"), [&, ranks = ranks, in_pieces = in_pieces](World& world) {
        const auto tokens = tokens_of(world.rank(), ranks, in_pieces);
        Mine mine(tokens);
        CapacityLimit<double> limit(world.communicator(), shape(), {0.8, policy},
                                    static_cast<std::int64_t>(tokens.size()));
        EXPECT_EQ(limit.capacity(kLength), capacity);
        const std::int64_t mine_dropped = limit.apply(mine.routed.routing, mine.where);
        const std::lock_guard lock(mutex);
        dropped += mine_dropped;
        for (std::size_t i = 0; i < mine.routed.routing.experts.size(); ++i) {
          if (mine.routed.routing.experts[i] != kNoExpert)
            kept.emplace_back(tokens[i / kTopK], mine.routed.routing.experts[i]);
        }
      });
      std::sort(kept.begin(), kept.end());
      EXPECT_EQ(kept, expected) << ranks;
      EXPECT_EQ(dropped + std::ssize(kept), kSequences * kLength * kTopK);
    }
  }
}

/// As large as can be is no limit; it was none at all where it was more than an integer can say.
TEST(Capacity, IsNoMoreThanASequence) {
  test::on_threads(1, test::only("inproc"), [](World& world) {
    for (const double factor : {1e3, 1e19, 1e308}) {
      const CapacityLimit<double> limit(world.communicator(), shape(), {factor, DropPolicy::Position}, 4);
      EXPECT_EQ(limit.capacity(kLength), kLength);
    }
  });
}

TEST(Capacity, RefusesTokensThatItWasNotMadeFor) {
  test::on_threads(1, test::only("inproc"), [](World& world) {
    CapacityLimit<double> limit(world.communicator(), shape(), {0.8, DropPolicy::Position}, 1);
    Routing<double> routing{.router = "r", .tokens = 2, .top_k = kTopK, .experts = {}, .gates = {}, .fault = {}};
    routing.experts.resize(2 * kTopK);
    routing.gates.resize(2 * kTopK);
    const TokenPositions two{1, 2, {0, 0}, {0, 1}};
    EXPECT_THAT(test::complaint([&] { limit.apply(routing, two); }),
                ::testing::HasSubstr("2 tokens, expected no more"));
    for (const TokenPositions& wrong : {TokenPositions{1, 0, {0, 0}, {0, 1}}, {1, 2, {0}, {0, 1}}, {1, 2, {}, {}}})
      EXPECT_THAT(test::complaint([&] { limit.apply(routing, wrong); }),
                  ::testing::HasSubstr("a place for every token"));
  });
}

TEST(Capacity, RefusesAFactorBelow0) {
  Communicator alone;
  EXPECT_THROW(CapacityLimit<double>(alone, shape(), {-1}, 3), Error);
  EXPECT_THROW(BalanceLoss<double>(alone, shape(), -0.5), Error);
}

TEST(BalanceLoss, IsTheSame_HoweverSequencesAreCut) {
  const double coefficient = 0.03;
  // By its definition, from all tokens.
  double expected = 0;
  for (std::int64_t s = 0; s < kSequences; ++s) {
    std::vector<double> counts(kExperts), sums(kExperts);
    for (std::int64_t t = s * kLength; t < (s + 1) * kLength; ++t) {
      const std::vector<double> logits = logits_of(t);
      double all = 0;
      for (const double l : logits) all += std::exp(l);
      for (std::size_t e = 0; e < kExperts; ++e) sums[e] += std::exp(logits[e]) / all;
      const Mine one({t});
      for (const std::int32_t e : one.routed.chosen) counts[static_cast<std::size_t>(e)] += 1;
    }
    for (std::size_t e = 0; e < kExperts; ++e)
      expected += coefficient * kLength * kExperts * (counts[e] / (kTopK * kLength)) * (sums[e] / kLength);
  }
  for (const auto& [ranks, in_pieces] : {std::pair(1, false), {2, true}, {4, false}, {5, true}}) {
    test::on_threads(ranks, test::only("inproc"), [&, ranks = ranks, in_pieces = in_pieces](World& world) {
      const Mine mine(tokens_of(world.rank(), ranks, in_pieces));
      const auto result = BalanceLoss<double>(world.communicator(), shape(), coefficient).of(mine.routed, mine.where);
      EXPECT_NEAR(result.loss, expected, 1e-13);
    });
  }
}

/// With equal load and flat scores it is the coefficient for each token.
TEST(BalanceLoss, IsTheCoefficient_WhereLoadIsEqual) {
  Communicator alone;
  const RouterShape two{.name = "r", .experts = 2, .top_k = 1};
  const std::vector<double> logits{1, 0, 0, 1, 1, 0, 0, 1};
  const TokenPositions where{.sequences = 1, .length = 4, .sequence = {0, 0, 0, 0}, .position = {0, 1, 2, 3}};
  const auto routed = Router<double>(two).route(logits, 4);
  EXPECT_NEAR(BalanceLoss<double>(alone, two, 0.5).of(routed, where).loss, 0.5 * 4, 1e-14);
}

}  // namespace
}  // namespace sinew::parallel
