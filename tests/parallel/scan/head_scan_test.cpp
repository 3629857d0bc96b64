#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/parallel/compute/host_blas.hpp>
#include <sinew/parallel/scan/head_state_scan.hpp>
#include <support/worlds.hpp>

#include "whole_head_scan.hpp"

namespace sinew::parallel {
namespace {

using sinew::test::complaint;
using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;
using test::at;
using test::HeadScanPart;
using test::PartOfHeadScan;
using test::Values;
using test::WholeHeadScan;
using test::worst;
using ::testing::HasSubstr;

/// One head; one group; groups of which other ranks have heads, too; heads of one element and one state.
const std::vector<HeadScanSizes>& all_sizes() {
  static const std::vector<HeadScanSizes> sizes{{1, 1, 5, 3, 1, 1, 0},
                                                {2, 3, 2, 4, 1, 3, 0},
                                                {2, 4, 3, 2, 3, 2, 1},
                                                {1, 2, 1, 1, 1, 7, 3},
                                                {3, 4, 2, 3, 2, 2, 0}};
  return sizes;
}

std::vector<std::int64_t> positions_of_all(std::int64_t length) {
  return SequenceCut::contiguous(length, 1).positions(0);
}

HeadScanPart run_whole(const WholeHeadScan& whole, std::int64_t chunk) {
  HostBlas blas;
  HeadScan<double> scan(blas, whole.n, whole.length, chunk);
  PartOfHeadScan part(whole, positions_of_all(whole.length));
  scan.forward(part.in, {0, whole.length}, nullptr, part.out.y.data(), nullptr);
  scan.backward(part.in, {0, whole.length}, nullptr, part.dy.data(), nullptr, part.to, nullptr);
  return part.out;
}

TEST(HeadScan, IsThatOfItsDefinition_WhateverTheChunk) {
  for (const HeadScanSizes& sizes : all_sizes()) {
    for (const std::int64_t length : {0, 1, 7, 64, 129}) {
      const WholeHeadScan whole(sizes, length);
      const HeadScanPart expected = PartOfHeadScan::expected(whole, positions_of_all(length));
      for (const std::int64_t chunk : {1, 3, 16, 64, 1000})
        EXPECT_LT(run_whole(whole, chunk).distance(expected), 1e-12)
            << length << " tokens in chunks of " << chunk << ", " << sizes.heads << " heads";
    }
  }
}

/// The definition's own gradients, by differences of its loss.
TEST(HeadScan, HasADefinitionWhoseGradientsAreThoseOfDifferences) {
  WholeHeadScan whole({2, 4, 3, 2, 3, 2, 1}, 6);
  const WholeHeadScan expected = whole;
  const auto compare = [&](Values& values, const Values& gradient, const char* what) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      constexpr double kStep = 1e-5;
      const double before = values[i];
      values[i] = before + kStep;
      whole.run();
      const double above = whole.loss();
      values[i] = before - kStep;
      whole.run();
      const double slope = (above - whole.loss()) / (2 * kStep);
      values[i] = before;
      EXPECT_NEAR(gradient[i], slope, 1e-8) << what << i;
    }
  };
  compare(whole.x, expected.dx, "x");
  compare(whole.dt, expected.ddt, "dt");
  compare(whole.b, expected.db, "b");
  compare(whole.c, expected.dc, "c");
  compare(whole.a, expected.da, "a");
  compare(whole.skip, expected.dskip, "skip");
}

TEST(HeadScan, OfTwoRunsIsThatOfOne_IfTheStatePassesBetweenThem) {
  const WholeHeadScan whole({2, 4, 3, 2, 3, 2, 1}, 23);
  const HeadScanPart expected = PartOfHeadScan::expected(whole, positions_of_all(23));
  HostBlas blas;
  for (const std::int64_t border : {0, 1, 8, 13, 23}) {
    for (const bool passes : {true, false}) {
      HeadScan<double> scan(blas, whole.n, 23, 5);
      PartOfHeadScan part(whole, positions_of_all(23));
      const Rows first{0, border}, second{border, 23};
      Values state(static_cast<std::size_t>(whole.n.state())), slope = state;
      scan.forward(part.in, first, nullptr, part.out.y.data(), state.data());
      scan.forward(part.in, second, passes ? state.data() : nullptr, part.out.y.data(), nullptr);
      scan.backward(part.in, second, passes ? state.data() : nullptr, part.dy.data(), nullptr, part.to, slope.data());
      scan.backward(part.in, first, nullptr, part.dy.data(), passes ? slope.data() : nullptr, part.to, nullptr);
      const double distance = part.out.distance(expected);
      if (passes || border == 0 || border == 23) {
        EXPECT_LT(distance, 1e-12) << border;
      } else {
        EXPECT_GT(distance, 1e-3) << "a state that does not pass must show, at " << border;
      }
    }
  }
}

/// A run turns a state s into exp(a * dt_sum) * s + after. The backward pass does the same with gradients.
TEST(HeadScan, HasSummariesThatStandForRuns) {
  const WholeHeadScan whole({2, 3, 2, 4, 1, 3, 0}, 17);
  HostBlas blas;
  HeadScan<double> scan(blas, whole.n, 17, 4);
  PartOfHeadScan part(whole, positions_of_all(17));
  const Rows run{3, 16};
  const Values entering = test::wave(whole.n.state(), 8);
  Values left(entering.size()), after(entering.size()), dbefore(entering.size()), from_dy(entering.size());
  Values dt_sum(static_cast<std::size_t>(whole.n.sequences * whole.n.heads)), again = dt_sum;
  scan.forward(part.in, run, entering.data(), part.out.y.data(), left.data());
  scan.backward(part.in, run, entering.data(), part.dy.data(), entering.data(), part.to, dbefore.data());
  scan.summary(part.in, run, dt_sum.data(), after.data());
  scan.gradient_summary(part.in, run, part.dy.data(), again.data(), from_dy.data());
  EXPECT_EQ(dt_sum, again);
  for (std::size_t i = 0; i < entering.size(); ++i) {
    const std::size_t head = i / static_cast<std::size_t>(whole.n.head_state());
    const double decay = std::exp(whole.a[head % whole.a.size()] * dt_sum[head]);
    after[i] += decay * entering[i];
    from_dy[i] += decay * entering[i];
  }
  EXPECT_LT(worst(left, after), 1e-12);
  EXPECT_LT(worst(dbefore, from_dy), 1e-12);
}

/// x, b and c of a token side by side in one array, and their gradients likewise.
TEST(HeadScan, TakesTokensOfOneArray) {
  const WholeHeadScan whole({2, 4, 3, 2, 3, 2, 1}, 11);
  const HeadScanPart expected = PartOfHeadScan::expected(whole, positions_of_all(11));
  const std::int64_t width = whole.n.width(), states = whole.n.group_states(), row = width + 2 * states + 1;
  Values all(static_cast<std::size_t>(whole.tokens() * row), 5), slopes(all.size(), 5);
  const auto copy = [&](const Values& from, std::int64_t of, std::int64_t first) {
    for (std::int64_t t = 0; t < whole.tokens(); ++t) {
      for (std::int64_t i = 0; i < of; ++i) at(all, t * row + first + i) = at(from, t * of + i);
    }
  };
  copy(whole.x, width, 0), copy(whole.b, states, width), copy(whole.c, states, width + states);
  HostBlas blas;
  HeadScan<double> scan(blas, whole.n, 11, 4);
  PartOfHeadScan part(whole, positions_of_all(11));
  part.in.x = all.data(), part.in.b = all.data() + width, part.in.c = all.data() + width + states;
  part.to.x = slopes.data(), part.to.b = slopes.data() + width, part.to.c = slopes.data() + width + states;
  part.in.stride = row;
  scan.forward(part.in, {0, 11}, nullptr, part.out.y.data(), nullptr);
  scan.backward(part.in, {0, 11}, nullptr, part.dy.data(), nullptr, part.to, nullptr);
  for (std::int64_t t = 0; t < whole.tokens(); ++t) {
    for (std::int64_t i = 0; i < width; ++i) at(part.out.dx, t * width + i) = at(slopes, t * row + i);
    for (std::int64_t i = 0; i < states; ++i) {
      at(part.out.db, t * states + i) = at(slopes, t * row + width + i);
      at(part.out.dc, t * states + i) = at(slopes, t * row + width + states + i);
    }
    ASSERT_EQ(at(slopes, t * row + row - 1), 5) << "nothing is written between tokens";
  }
  EXPECT_LT(part.out.distance(expected), 1e-12);
}

TEST(HeadScan, StaysNearInF32_OverManyTokens) {
  const WholeHeadScan whole({1, 2, 8, 4, 1, 2, 0}, 3000);
  HostBlas blas;
  HeadScan<float> scan(blas, whole.n, whole.length);
  const auto narrow = [](const Values& from) { return std::vector<float>(from.begin(), from.end()); };
  const auto x = narrow(whole.x), dt = narrow(whole.dt), b = narrow(whole.b), c = narrow(whole.c),
             dy = narrow(whole.dy);
  std::vector<float> a{-0.2F, -0.9F}, skip = narrow(whole.skip);
  WholeHeadScan expected = whole;
  expected.a = {double{a[0]}, double{a[1]}};
  expected.run();
  std::vector<float> y(x.size()), dx(x.size()), ddt(dt.size()), db(b.size()), dc(b.size()), da(2), dskip(2);
  const HeadScanInputs<float> in{x.data(), dt.data(), b.data(), c.data(), a.data(), skip.data()};
  scan.forward(in, {0, 3000}, nullptr, y.data(), nullptr);
  scan.backward(in, {0, 3000}, nullptr, dy.data(), nullptr,
                {dx.data(), ddt.data(), db.data(), dc.data(), da.data(), dskip.data()}, nullptr);
  const auto near = [](const std::vector<float>& found, const Values& exact) {
    return worst(Values(found.begin(), found.end()), exact);
  };
  EXPECT_LT(near(y, expected.y), 3e-5);
  EXPECT_LT(near(dx, expected.dx), 3e-5);
  EXPECT_LT(near(ddt, expected.ddt), 3e-5);
  EXPECT_LT(near(db, expected.db), 3e-5);
  EXPECT_LT(near(dc, expected.dc), 3e-5);
  EXPECT_LT(near(da, expected.da), 3e-4);
}

/// Forward and backward of this rank's tokens; the shares of a's and skip's gradients are summed over the group.
HeadScanPart run_shared(Communicator& group, const WholeHeadScan& whole, const SequenceCut& cut, int rank,
                        std::int64_t chunk) {
  HostBlas blas;
  HeadStateScan<double> scan(group, blas, whole.n, cut, chunk);
  PartOfHeadScan part(whole, cut.positions(rank));
  Values kept(static_cast<std::size_t>(scan.kept_elements()), 9);
  scan.forward(part.in, part.out.y.data(), kept.data());
  scan.backward(part.in, kept.data(), part.dy.data(), part.to);
  require(scan.kept_elements() == HeadStateScan<double>::kept_for(whole.n, cut, rank), "kept elements");
  require(static_cast<std::int64_t>(scan.held_bytes() / sizeof(double)) ==
              HeadStateScan<double>::room_for(whole.n, cut, rank, chunk),
          "held elements");
  if (group.size() > 1) {
    group.all_reduce(part.out.da).get();
    group.all_reduce(part.out.dskip).get();
  }
  return part.out;
}

TEST(HeadStateScan, IsThatOfTheWholeSequence) {
  for (const int ranks : {1, 2, 3, 4, 8}) {
    for (const HeadScanSizes& sizes : all_sizes()) {
      for (const std::int64_t length : {0, 1, 5, 37, 150}) {
        const WholeHeadScan whole(sizes, length);
        on_threads(ranks, only("inproc"), [&](World& world) {
          for (const bool zig_zag : {false, true}) {
            const SequenceCut cut =
                zig_zag ? SequenceCut::zig_zag(length, ranks) : SequenceCut::contiguous(length, ranks);
            const HeadScanPart found = run_shared(world.communicator(), whole, cut, world.rank(), 8);
            const double distance = found.distance(PartOfHeadScan::expected(whole, cut.positions(world.rank())));
            require(distance < 1e-12,
                    fmt::format("{} ranks, {} long, zig-zag {}: {}", ranks, length, zig_zag, distance));
          }
        });
      }
    }
  }
}

TEST(HeadStateScan, SendsNothing_WhereThereIsNobodyElse) {
  const WholeHeadScan whole({2, 3, 2, 4, 1, 3, 0}, 37);
  const SequenceCut cut = SequenceCut::zig_zag(37, 1);
  HostBlas blas;
  Communicator none;
  HeadStateScan<double> scan(none, blas, whole.n, cut);
  EXPECT_EQ(scan.sent_bytes(), 0U);
  EXPECT_LT(run_shared(none, whole, cut, 0, 64).distance(PartOfHeadScan::expected(whole, cut.positions(0))), 1e-12);
}

TEST(HeadStateScan, SendsStates_WhateverTheLength) {
  constexpr int kRanks = 4;
  const HeadScanSizes sizes{2, 3, 2, 4, 1, 3, 0};
  constexpr std::size_t kMessage = 2 * (3 + 3 * 8) * sizeof(double);
  for (const std::int64_t length : {16, 160}) {
    const WholeHeadScan whole(sizes, length);
    on_threads(kRanks, only("inproc"), [&](World& world) {
      const SequenceCut cut = SequenceCut::contiguous(length, kRanks);
      HostBlas blas;
      HeadStateScan<double> scan(world.communicator(), blas, sizes, cut);
      PartOfHeadScan part(whole, cut.positions(world.rank()));
      Values kept(static_cast<std::size_t>(scan.kept_elements()));
      scan.forward(part.in, part.out.y.data(), kept.data());
      const int behind = kRanks - 1 - world.rank();  // ranks that follow: one place on, and two places on
      const std::size_t messages = (behind >= 1 ? 1 : 0) + (behind >= 2 ? 1 : 0);
      require(scan.sent_bytes() == messages * kMessage, fmt::format("{} bytes", scan.sent_bytes()));
    });
  }
}

TEST(HeadScan, SaysWhatDoesNotFit) {
  HostBlas blas;
  const auto made = [&](const HeadScanSizes& sizes, std::int64_t tokens, std::int64_t chunk) {
    return complaint([&] { HeadScan<float>(blas, sizes, tokens, chunk); });
  };
  EXPECT_THAT(made({0, 1, 1, 1, 1, 1, 0}, 4, 2), HasSubstr("head scan: 0 sequences of 4 tokens in chunks of 2"));
  EXPECT_THAT(made({1, 1, 1, 1, 1, 1, 0}, 4, 0), HasSubstr("in chunks of 0"));
  EXPECT_THAT(made({1, 1, 1, 1, 1, 1, 0}, -1, 2), HasSubstr("of -1 tokens"));
  EXPECT_THAT(made({1, 5, 1, 1, 2, 2, 0}, 4, 2), HasSubstr("heads 0 to 4 of 2 groups of 2 heads"));
  EXPECT_THAT(made({1, 2, 1, 1, 2, 2, 0}, 4, 2), HasSubstr("expected heads of the first and of the last group"));
  EXPECT_THAT(made({1, 2, 1, 1, 2, 2, 2}, 4, 2), HasSubstr("heads 2 to 3 of 2 groups of 2 heads"));
  Communicator none;
  EXPECT_THAT(complaint([&] { HeadStateScan<float>(none, blas, {}, SequenceCut::zig_zag(8, 2)); }),
              HasSubstr("head scan: a sequence cut for 2 ranks, expected 1, those of the group"));
}

}  // namespace
}  // namespace sinew::parallel
