#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sinew/parallel/tensor/vocabulary_cross_entropy.hpp>
#include <sinew/parallel/tensor/vocabulary_embedding.hpp>
#include <support/worlds.hpp>

namespace sinew::parallel {
namespace {

using sinew::test::complaint;
using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;

using Values = std::vector<double>;
using Tokens = std::vector<std::int64_t>;

Values wave(std::int64_t count, int seed) {
  Values all(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = 3 * std::sin(1.3 * static_cast<double>(i) + seed);
  return all;
}

Values columns(const Values& of, const Rows& mine, std::int64_t width) {
  Values part;
  for (auto row = of.begin(); row != of.end(); row += width) part.insert(part.end(), row + mine.first, row + mine.last);
  return part;
}

/// By the definition, of the whole: -sum over the vocabulary of q log p, q = (1 - e) [target] + e / V.
struct ByDefinition {
  double sum = 0;
  Values gradient;

  ByDefinition(const Values& logits, const Tokens& targets, std::int64_t vocabulary, double e, std::int64_t ignored)
      : gradient(logits.size()) {
    for (std::size_t r = 0; r < targets.size(); ++r) {
      if (targets[r] == ignored) continue;
      double total = 0;
      const std::size_t row = r * static_cast<std::size_t>(vocabulary);
      for (std::int64_t v = 0; v < vocabulary; ++v) total += std::exp(logits[row + static_cast<std::size_t>(v)]);
      for (std::int64_t v = 0; v < vocabulary; ++v) {
        const std::size_t i = row + static_cast<std::size_t>(v);
        const double p = std::exp(logits[i]) / total;
        const double q = (v == targets[r] ? 1 - e : 0) + e / static_cast<double>(vocabulary);
        sum -= q * std::log(p);
        gradient[i] = p - q;
      }
    }
  }
};

Shard lopsided(int ranks, std::int64_t extent) {
  Shard cut{0, {0}};
  for (int r = 1; r <= ranks; ++r) cut.offsets.push_back(r == ranks ? extent : r - 1);  // the first has none
  return cut;
}

TEST(CrossEntropy, IsThatOfTheWholeVocabulary_WithLabelSmoothingToo) {
  constexpr std::int64_t kRows = 5, kIgnored = -1;
  for (int ranks = 1; ranks <= 8; ++ranks) {
    on_threads(ranks, only("inproc"), [&](World& world) {
      for (const std::int64_t vocabulary : {1, 2, 11, 16}) {
        const Tokens targets{0, vocabulary - 1, kIgnored, vocabulary / 2, 0};
        const Values whole = wave(kRows * vocabulary, 1);
        for (const double smoothing : {0.0, 0.1, 1.0}) {
          const ByDefinition expected(whole, targets, vocabulary, smoothing, kIgnored);
          std::vector<Shard> cuts{Shard{}};
          if (vocabulary >= ranks) cuts.push_back(lopsided(ranks, vocabulary));
          for (const Shard& cut : cuts) {
            VocabularyCrossEntropy<double> loss(world.communicator(), "tp",
                                                {"logits", kRows, vocabulary, cut, smoothing, kIgnored});
            Values mine = columns(whole, loss.mine(), vocabulary);
            const TokenLoss found = loss.forward(mine.data(), targets);
            loss.backward(mine.data(), targets, 0.25);
            const std::string which = fmt::format("{} of {}, smoothing {}: ", vocabulary, ranks, smoothing);
            require(found.tokens == 4, which + "tokens");
            require(std::abs(found.sum - expected.sum) < 1e-12 * (1 + std::abs(expected.sum)),
                    fmt::format("{}{} for {}", which, found.sum, expected.sum));
            const Values gradient = columns(expected.gradient, loss.mine(), vocabulary);
            for (std::size_t i = 0; i < mine.size(); ++i)
              require(std::abs(mine[i] - 0.25 * gradient[i]) < 1e-14, which + "gradient");
          }
        }
      }
    });
  }
}

/// As if a rank's part were all there is: the error that others had.
TEST(CrossEntropy, IsToldFromOneWithALocalMean) {
  on_threads(2, only("inproc"), [](World& world) {
    const Values whole = wave(8, 1);
    const Tokens targets{3};
    VocabularyCrossEntropy<double> loss(world.communicator(), "tp", {"logits", 1, 8, {}, 0.2, -1});
    Values mine = columns(whole, loss.mine(), 8);
    const double found = loss.forward(mine.data(), targets).sum;
    const ByDefinition plain(whole, targets, 8, 0, -1), right(whole, targets, 8, 0.2, -1);
    double local = 0;
    for (int i = 0; i < 4; ++i) local += whole[static_cast<std::size_t>(i)] / 4;
    double total = 0;
    for (const double l : whole) total += std::exp(l);
    const double wrong = 0.8 * plain.sum + 0.2 * (std::log(total) - local);
    require(std::abs(found - right.sum) < 1e-12 && std::abs(wrong - right.sum) > 1e-3, "the two must differ");
  });
}

TEST(CrossEntropy, NamesWhatIsNoNumber_OnAllRanks) {
  on_threads(3, only("inproc"), [](World& world) {
    const auto said = [&](double bad, std::int64_t target) {
      VocabularyCrossEntropy<double> loss(world.communicator(), "tp", {"head", 2, 9, {}, 0, -1});
      Values mine(6, 0.5);
      if (world.rank() == 1) mine[4] = bad;
      return complaint([&] { static_cast<void>(loss.forward(mine.data(), Tokens{0, target})); });
    };
    require(
        said(std::nan(""), 1) == "cross_entropy of 'head': row 1 has a logit that is not a number, on rank 1 along tp",
        said(std::nan(""), 1));
    require(said(std::numeric_limits<double>::infinity(), 1).find("row 1 has an infinite logit") != std::string::npos,
            "infinite");
    require(said(-std::numeric_limits<double>::infinity(), 1) == "no complaint", "a logit that is masked");
    require(said(0, 9).find("target 9 in row 1, expected 0 to 8") != std::string::npos, said(0, 9));
  });
}

TEST(Embedding, LooksUpWhatOthersHave) {
  constexpr std::int64_t kRows = 6, kVocabulary = 7, kWidth = 3;
  const Tokens tokens{6, 0, 3, 3, 1, 6};
  for (int ranks = 1; ranks <= 8; ++ranks) {
    on_threads(ranks, only("inproc"), [&](World& world) {
      const Values table = wave(kVocabulary * kWidth, 1), dout = wave(kRows * kWidth, 2);
      for (const bool sequence_parallel : {false, true}) {
        VocabularyEmbedding<double> embedding(world.communicator(), "tp",
                                              {"tokens", kRows, kVocabulary, kWidth, {}, sequence_parallel, {}});
        const Rows mine = embedding.mine();
        const Rows own = sequence_parallel ? rows_of({}, world.rank(), ranks, kRows) : Rows{0, kRows};
        const Values part(table.begin() + mine.first * kWidth, table.begin() + mine.last * kWidth);
        Values whole(kRows * kWidth), out(static_cast<std::size_t>(own.count() * kWidth));
        embedding.forward(tokens, part.data(), whole.data(), out.data());
        for (std::int64_t i = 0; i < own.count() * kWidth; ++i) {
          const std::int64_t token = tokens[static_cast<std::size_t>(own.first + i / kWidth)];
          require(out[static_cast<std::size_t>(i)] == table[static_cast<std::size_t>(token * kWidth + i % kWidth)],
                  "a row of the table");
        }
        const Values d(dout.begin() + own.first * kWidth, dout.begin() + own.last * kWidth);
        Values gradient(part.size(), 2);
        embedding.backward(tokens, d.data(), whole.data(), 1, gradient.data());
        for (std::int64_t i = 0; i < mine.count() * kWidth; ++i) {
          double expected = 2;
          for (std::size_t r = 0; r < tokens.size(); ++r) {
            if (tokens[r] == mine.first + i / kWidth)
              expected += dout[r * kWidth + static_cast<std::size_t>(i % kWidth)];
          }
          require(std::abs(gradient[static_cast<std::size_t>(i)] - expected) < 1e-12, "the sum of its rows");
        }
        const std::string said = complaint([&] {
          embedding.forward(Tokens{0, 0, 7, 0, 0, 0}, part.data(), whole.data(), out.data());
        });
        require(said == "embedding 'tokens': token 7 in row 2, expected 0 to 6", said);
      }
    });
  }
}

}  // namespace
}  // namespace sinew::parallel
