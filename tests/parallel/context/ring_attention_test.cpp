#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sinew/parallel/context/ring_attention.hpp>
#include <support/worlds.hpp>

#include "../support/naive_blas.hpp"
#include "whole_attention.hpp"

namespace sinew::parallel {
namespace {

using sinew::test::complaint;
using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;
using test::picked;
using test::Sight;
using test::Values;
using test::wave;
using test::WholeAttention;

const std::vector kCausal{AttentionMask(true)};

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
      RingAttention<double> ring(world.communicator(), blas, heads, cut);
      const auto tokens = static_cast<std::size_t>(cut.tokens(world.rank()));
      const Values q = wave(std::ssize(cut.positions(world.rank())) * 2, 1);
      Values out(q.size()), lse(tokens);
      ring.forward(kCausal, {q.data(), q.data(), q.data(), 2, 2}, out.data(), lse.data());
      require(ring.sent_bytes() == (kRanks - 1) * 2 * tokens * 2 * sizeof(double), "keys and values, P - 1 times");
      require(ring.held_bytes() == (4 * 2 * 2 + 1) * tokens * sizeof(double),
              "keys and values of two ranks and their gradients, a figure for each token");
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
  WholeAttention whole({1, 1, 2}, kLength, {Sight{}});
  test::at(whole.k, 5 * 2) = std::numeric_limits<double>::quiet_NaN();
  on_threads(3, only("inproc"), [&](World& world) {
    const SequenceCut cut = SequenceCut::zig_zag(kLength, 3);
    test::NaiveBlas blas;
    RingAttention<double> ring(world.communicator(), blas, whole.h, cut);
    const auto mine = cut.positions(world.rank());
    const Values q = picked(whole.q, mine, 2, kLength), k = picked(whole.k, mine, 2, kLength),
                 v = picked(whole.v, mine, 2, kLength);
    Values out(q.size()), lse(mine.size());
    ring.forward(kCausal, {q.data(), k.data(), v.data(), 2, 2}, out.data(), lse.data());
    for (std::size_t i = 0; i < mine.size(); ++i)
      require(std::isnan(out[2 * i]) == (mine[i] >= 5), fmt::format("position {}", mine[i]));
  });
}

/// No product at all.
class NoBlas final : public Blas {
 public:
  void multiply(const Product&, float, const float*, const float*, float, float*) override { refuse(); }
  void multiply(const Product&, double, const double*, const double*, double, double*) override { refuse(); }

 private:
  [[noreturn]] static void refuse() { throw std::runtime_error("no product"); }
};

/// Keys and values that are under way have their places in the ring: it waits for them.
TEST(RingAttention, LeavesNothingUnderWay_WhenAProductThrows) {
  constexpr std::int64_t kLength = 8;
  for (const bool is_forward : {true, false}) {
    std::atomic<bool> is_there{false};
    on_threads(2, only("inproc"), [&](World& world) {
      const SequenceCut cut = SequenceCut::zig_zag(kLength, 2);
      const auto tokens = static_cast<std::size_t>(cut.tokens(world.rank()));
      const Values q = wave(std::ssize(cut.positions(world.rank())) * 2, 1);
      Values out(q.size()), lse(tokens), slopes(q.size(), 1), to(3 * q.size());
      test::NaiveBlas naive;
      NoBlas none;
      RingAttention<double> ring(world.communicator(), world.rank() == 0 ? static_cast<Blas&>(none) : naive, {1, 1, 2},
                                 cut);
      if (world.rank() == 1) {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        is_there = true;
      }
      std::string said;
      try {
        const Projections<const double> in{q.data(), q.data(), q.data(), 2, 2};
        if (is_forward) {
          ring.forward(kCausal, in, out.data(), lse.data());
        } else {
          ring.backward(kCausal, in, out.data(), lse.data(), slopes.data(),
                        {to.data(), to.data() + q.size(), to.data() + 2 * q.size(), 2, 2});
        }
      } catch (const std::runtime_error& e) {
        said = e.what();
      }
      if (world.rank() == 1) return;
      require(is_there, "it has come back while a message was under way");
      require(said == "no product", said);
      world.communicator().abort("the other one may wait for gradients");
    });
  }
}

TEST(RingAttention, SaysWhatDoesNotFit) {
  on_threads(2, only("inproc"), [](World& world) {
    test::NaiveBlas blas;
    const auto made = [&](const AttentionHeads& heads, int ranks) {
      return complaint(
          [&] { RingAttention<float>(world.communicator(), blas, heads, SequenceCut::zig_zag(8, ranks)); });
    };
    require(made({2, 2, 4}, 3) == "ring attention: a sequence cut for 3 ranks, expected 2, those of the group",
            made({2, 2, 4}, 3));
    require(made({3, 2, 4}, 2).find("3 heads, 2 of keys and values") != std::string::npos, made({3, 2, 4}, 2));
    RingAttention<float> ring(world.communicator(), blas, {1, 1, 1}, SequenceCut::zig_zag(8, 2), 3);
    const std::vector<AttentionMask> two(2, AttentionMask(true));
    const std::string said = complaint([&] { ring.forward(two, {}, nullptr, nullptr); });
    require(said == "ring attention: 2 masks for 3 sequences, expected one for all or one for each", said);
  });
}

}  // namespace
}  // namespace sinew::parallel
