#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sinew/parallel/context/ring_attention.hpp>
#include <support/worlds.hpp>

#include "../support/naive_blas.hpp"

namespace sinew::parallel {
namespace {

using sinew::test::complaint;
using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;

using Values = std::vector<double>;

Values wave(std::int64_t count, int seed) {
  Values all(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = std::sin(0.7 * static_cast<double>(i) + seed);
  return all;
}
double& at(Values& v, std::int64_t i) { return v[static_cast<std::size_t>(i)]; }

/// Attention by its definition, of the whole sequence.
struct Whole {
  AttentionHeads h;
  std::int64_t length;
  bool causal;
  Values q = wave(length * h.width(), 1), k = wave(length * h.key_value_width(), 2),
         v = wave(length * h.key_value_width(), 3), dout = wave(length * h.width(), 4);
  Values out = Values(q.size()), dq = Values(q.size()), dk = Values(k.size()), dv = Values(v.size());

  Whole(const AttentionHeads& heads, std::int64_t of, bool masked) : h(heads), length(of), causal(masked) {
    const int w = h.head_width, group = h.heads / h.key_value_heads;
    const double scale = 1 / std::sqrt(static_cast<double>(w));
    for (std::int64_t i = 0; i < length; ++i) {
      for (int head = 0; head < h.heads; ++head) {
        const std::int64_t mine = i * h.width() + head * w, shared = head / group * w;
        const std::int64_t seen = causal ? i + 1 : length;
        Values p(static_cast<std::size_t>(seen)), slope(static_cast<std::size_t>(seen));
        double total = 0, along = 0;
        for (std::int64_t j = 0; j < seen; ++j) {
          double s = 0;
          for (int d = 0; d < w; ++d) s += at(q, mine + d) * at(k, j * h.key_value_width() + shared + d);
          at(p, j) = std::exp(s * scale);
          total += at(p, j);
        }
        for (std::int64_t j = 0; j < seen; ++j) {
          const std::int64_t theirs = j * h.key_value_width() + shared;
          at(p, j) /= total;
          for (int d = 0; d < w; ++d) {
            at(out, mine + d) += at(p, j) * at(v, theirs + d);
            at(dv, theirs + d) += at(p, j) * at(dout, mine + d);
            at(slope, j) += at(dout, mine + d) * at(v, theirs + d);
          }
          along += at(p, j) * at(slope, j);
        }
        for (std::int64_t j = 0; j < seen; ++j) {
          const double ds = at(p, j) * (at(slope, j) - along) * scale;
          for (int d = 0; d < w; ++d) {
            at(dq, mine + d) += ds * at(k, j * h.key_value_width() + shared + d);
            at(dk, j * h.key_value_width() + shared + d) += ds * at(q, mine + d);
          }
        }
      }
    }
  }
};

Values picked(const Values& of, const std::vector<std::int64_t>& positions, std::int64_t width) {
  Values some;
  for (const std::int64_t p : positions) some.insert(some.end(), of.begin() + p * width, of.begin() + (p + 1) * width);
  return some;
}

double worst(const Values& a, const Values& b) {
  if (a.size() != b.size()) return 1e300;
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

struct Part {
  Values out, lse, dq, dk, dv;
};

Part run(RingAttention<double>& ring, const Whole& whole, const std::vector<std::int64_t>& mine) {
  const std::int64_t width = whole.h.width(), shared = whole.h.key_value_width();
  const Values q = picked(whole.q, mine, width), k = picked(whole.k, mine, shared), v = picked(whole.v, mine, shared),
               dout = picked(whole.dout, mine, width);
  Part p{Values(q.size()), Values(mine.size() * static_cast<std::size_t>(whole.h.heads)), Values(q.size(), 9),
         Values(k.size(), 9), Values(v.size(), 9)};
  ring.forward(q.data(), k.data(), v.data(), p.out.data(), p.lse.data());
  ring.backward(q.data(), k.data(), v.data(), p.out.data(), p.lse.data(), dout.data(), p.dq.data(), p.dk.data(),
                p.dv.data());
  return p;
}

TEST(RingAttention, IsThatOfTheWholeSequence) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    for (const AttentionHeads& heads : {AttentionHeads{2, 2, 3}, AttentionHeads{4, 1, 2}}) {
      for (const std::int64_t length : {1, 5, 37, 150}) {
        for (const bool causal : {false, true}) {
          const Whole whole(heads, length, causal);
          on_threads(ranks, only("inproc"), [&](World& world) {
            for (const bool zig_zag : {false, true}) {
              const SequenceCut cut =
                  zig_zag ? SequenceCut::zig_zag(length, ranks) : SequenceCut::contiguous(length, ranks);
              test::NaiveBlas blas;
              RingAttention<double> ring(world.communicator(), blas, heads, cut, causal);
              const auto mine = cut.positions(world.rank());
              const Part p = run(ring, whole, mine);
              const std::string which =
                  fmt::format("{} ranks, {} long, causal {}, zig-zag {}: ", ranks, length, causal, zig_zag);
              const std::int64_t width = heads.width(), shared = heads.key_value_width();
              require(worst(p.out, picked(whole.out, mine, width)) < 1e-12, which + "out");
              require(worst(p.dq, picked(whole.dq, mine, width)) < 1e-12, which + "queries");
              require(worst(p.dk, picked(whole.dk, mine, shared)) < 1e-12, which + "keys");
              require(worst(p.dv, picked(whole.dv, mine, shared)) < 1e-12, which + "values");
            }
          });
        }
      }
    }
  }
}

TEST(RingAttention, IsToldFromOneWithAnotherMask) {
  const Whole causal({2, 2, 3}, 20, true), full({2, 2, 3}, 20, false);
  on_threads(2, only("inproc"), [&](World& world) {
    const SequenceCut cut = SequenceCut::zig_zag(20, 2);
    test::NaiveBlas blas;
    RingAttention<double> ring(world.communicator(), blas, causal.h, cut, true);
    const auto mine = cut.positions(world.rank());
    const Part p = run(ring, causal, mine);
    require(worst(p.out, picked(full.out, mine, 6)) > 1e-3 && worst(p.dk, picked(full.dk, mine, 6)) > 1e-3,
            "it must show");
  });
}

/// Tiles that nothing is seen of are not computed: in zig-zag all ranks do the same, in pieces that follow each other
/// the last one does cp / 2 of cp - 1/2 of it all, and the others wait for it.
TEST(RingAttention, SharesWorkAndTrafficAsPredicted) {
  constexpr int kRanks = 4;
  constexpr std::int64_t kLength = 2048;
  const AttentionHeads heads{1, 1, 2};
  on_threads(kRanks, only("inproc"), [&](World& world) {
    test::NaiveBlas blas;
    for (const bool zig_zag : {false, true}) {
      const SequenceCut cut =
          zig_zag ? SequenceCut::zig_zag(kLength, kRanks) : SequenceCut::contiguous(kLength, kRanks);
      RingAttention<double> ring(world.communicator(), blas, heads, cut, true);
      const auto tokens = static_cast<std::size_t>(cut.tokens(world.rank()));
      const Values q = wave(std::ssize(cut.positions(world.rank())) * 2, 1);
      Values out(q.size()), lse(tokens);
      ring.forward(q.data(), q.data(), q.data(), out.data(), lse.data());
      require(ring.sent_bytes() == (kRanks - 1) * 2 * tokens * 2 * sizeof(double), "keys and values, P - 1 times");
      require(ring.held_bytes() == 2 * 2 * tokens * 2 * sizeof(double), "keys and values of two ranks");
      std::vector<double> pairs{static_cast<double>(ring.computed_pairs())}, most = pairs;
      world.communicator().all_reduce(pairs).get();
      world.communicator().all_reduce(most, ReduceOp::Max).get();
      const double share = pairs[0] / kRanks / most[0];  // of the time of the busiest rank that the others work, too
      const double naive = (kRanks / 2.0) / (kRanks - 0.5);
      require(std::abs(share - (zig_zag ? 1.0 : naive)) < 0.02, fmt::format("zig-zag {}: {}", zig_zag, share));
    }
  });
}

TEST(RingAttention, LeavesWhatIsNoNumberWhereItIsSeen) {
  constexpr std::int64_t kLength = 12;
  Whole whole({1, 1, 2}, kLength, true);
  at(whole.k, 5 * 2) = std::numeric_limits<double>::quiet_NaN();
  on_threads(3, only("inproc"), [&](World& world) {
    const SequenceCut cut = SequenceCut::zig_zag(kLength, 3);
    test::NaiveBlas blas;
    RingAttention<double> ring(world.communicator(), blas, whole.h, cut, true);
    const auto mine = cut.positions(world.rank());
    const Part p = run(ring, whole, mine);
    for (std::size_t i = 0; i < mine.size(); ++i)
      require(std::isnan(p.out[2 * i]) == (mine[i] >= 5), fmt::format("position {}", mine[i]));
  });
}

TEST(RingAttention, SaysWhatDoesNotFit) {
  on_threads(2, only("inproc"), [](World& world) {
    test::NaiveBlas blas;
    const auto made = [&](const AttentionHeads& heads, int ranks) {
      return complaint(
          [&] { RingAttention<float>(world.communicator(), blas, heads, SequenceCut::zig_zag(8, ranks), true); });
    };
    require(made({2, 2, 4}, 3) == "ring attention: a sequence cut for 3 ranks, expected 2, those of the group",
            made({2, 2, 4}, 3));
    require(made({3, 2, 4}, 2).find("3 heads, 2 of keys and values") != std::string::npos, made({3, 2, 4}, 2));
  });
}

}  // namespace
}  // namespace sinew::parallel
