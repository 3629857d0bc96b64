#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sinew/parallel/scan/causal_convolution.hpp>
#include <support/worlds.hpp>

#include "whole_scan.hpp"

namespace sinew::parallel {
namespace {

using sinew::test::complaint;
using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;
using test::at;
using test::picked;
using test::Values;
using test::wave;
using test::worst;

/// The convolution by its definition, of whole sequences.
struct WholeConvolution {
  ConvolutionSizes n;
  std::int64_t length;
  Values x, weight, bias, dy;
  Values y{}, dx{}, dweight{}, dbias{};

  WholeConvolution(const ConvolutionSizes& sizes, std::int64_t of)
      : n(sizes),
        length(of),
        x(wave(n.sequences * length * n.channels, 1)),
        weight(wave(n.channels * n.width, 2)),
        bias(wave(n.channels, 3)),
        dy(wave(n.sequences * length * n.channels, 4)) {
    run();
  }

  double loss() const {
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * dy[i];
    return sum;
  }

  void run() {
    y.assign(x.size(), 0), dx = y;
    dweight.assign(weight.size(), 0), dbias.assign(bias.size(), 0);
    for (std::int64_t s = 0; s < n.sequences; ++s) {
      for (std::int64_t t = 0; t < length; ++t) {
        for (std::int64_t d = 0; d < n.channels; ++d) {
          const std::int64_t i = (s * length + t) * n.channels + d;
          at(y, i) = at(bias, d);
          at(dbias, d) += at(dy, i);
          for (std::int64_t k = 0; k < n.width; ++k) {
            const std::int64_t seen = t - n.width + 1 + k, j = (s * length + seen) * n.channels + d;
            if (seen < 0) continue;
            at(y, i) += at(weight, d * n.width + k) * at(x, j);
            at(dx, j) += at(weight, d * n.width + k) * at(dy, i);
            at(dweight, d * n.width + k) += at(x, j) * at(dy, i);
          }
        }
      }
    }
  }
};

struct Part {
  Values y, dx, dweight, dbias;
};

Values of(const WholeConvolution& w, const Values& v, const std::vector<std::int64_t>& mine) {
  return picked(v, w.n.sequences, w.length, mine, w.n.channels);
}

/// Forward and backward of this rank's tokens; the shares of the parameters' gradients are summed over the group.
Part run(Communicator& group, CausalConvolution<double>& convolution, const WholeConvolution& w,
         const std::vector<std::int64_t>& mine) {
  const Values x = of(w, w.x, mine), dy = of(w, w.dy, mine);
  Part p{Values(x.size(), 9), Values(x.size(), 9), Values(w.weight.size()), Values(w.bias.size())};
  Values kept(static_cast<std::size_t>(convolution.kept_elements()), 9);
  convolution.forward(x.data(), w.weight.data(), w.bias.data(), p.y.data(), kept.data());
  convolution.backward(x.data(), kept.data(), w.weight.data(), dy.data(), p.dx.data(), p.dweight.data(),
                       p.dbias.data());
  if (group.size() > 1) {
    group.all_reduce(p.dweight).get();
    group.all_reduce(p.dbias).get();
  }
  return p;
}

TEST(WholeConvolution, HasTheGradientsOfItsLoss) {
  const WholeConvolution whole({2, 3, 4}, 6);
  const auto check = [&](Values WholeConvolution::*input, const Values& gradient, const std::string& which) {
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      WholeConvolution moved = whole;
      (moved.*input)[i] += 1;  // the loss is linear in each
      moved.run();
      EXPECT_NEAR(moved.loss() - whole.loss(), gradient[i], 1e-12) << which << " " << i;
    }
  };
  check(&WholeConvolution::x, whole.dx, "x");
  check(&WholeConvolution::weight, whole.dweight, "weight");
  check(&WholeConvolution::bias, whole.dbias, "bias");
}

TEST(CausalConvolution, IsThatOfTheWholeSequence) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    for (const ConvolutionSizes& sizes :
         {ConvolutionSizes{1, 3, 4}, ConvolutionSizes{2, 5, 1}, ConvolutionSizes{3, 2, 9}}) {
      for (const std::int64_t length : {0, 1, 5, 13, 37, 150}) {
        const WholeConvolution whole(sizes, length);
        on_threads(ranks, only("inproc"), [&](World& world) {
          for (const bool zig_zag : {false, true}) {
            const SequenceCut cut =
                zig_zag ? SequenceCut::zig_zag(length, ranks) : SequenceCut::contiguous(length, ranks);
            const auto mine = cut.positions(world.rank());
            CausalConvolution<double> convolution(world.communicator(), sizes, cut);
            const Part p = run(world.communicator(), convolution, whole, mine);
            const std::string which =
                fmt::format("{} ranks, {} long, {} wide, zig-zag {}: ", ranks, length, sizes.width, zig_zag);
            require(worst(p.y, of(whole, whole.y, mine)) < 1e-12, which + "y");
            require(worst(p.dx, of(whole, whole.dx, mine)) < 1e-12, which + "gradient of x");
            require(worst(p.dweight, whole.dweight) < 1e-12, which + "gradient of weight");
            require(worst(p.dbias, whole.dbias) < 1e-12, which + "gradient of bias");
          }
        });
      }
    }
  }
}

/// Each token without those that other ranks have: what a halo of zeros makes.
TEST(CausalConvolution, IsToldFromOneThatForgetsOtherRanks) {
  const WholeConvolution whole({1, 3, 4}, 24);
  on_threads(3, only("inproc"), [&](World& world) {
    const auto mine = SequenceCut::contiguous(24, 3).positions(world.rank());
    Communicator none;
    WholeConvolution part({1, 3, 4}, 8);
    part.x = of(whole, whole.x, mine), part.dy = of(whole, whole.dy, mine);
    CausalConvolution<double> convolution(none, {1, 3, 4}, SequenceCut::contiguous(8, 1));
    const Part p = run(none, convolution, part, SequenceCut::contiguous(8, 1).positions(0));
    require((worst(p.y, of(whole, whole.y, mine)) > 1e-3) == (world.rank() > 0), "tokens before must show");
    require((worst(p.dx, of(whole, whole.dx, mine)) > 1e-3) == (world.rank() < 2), "gradients from behind must, too");
    require(convolution.sent_bytes() == 0, "nobody to send to");
  });
}

TEST(CausalConvolution, SendsHalos_WhateverTheLength) {
  constexpr int kRanks = 4;
  constexpr double kHalo = 2 * 3 * 5 * sizeof(double);  // sequences, tokens, channels
  for (const std::int64_t length : {64, 6400}) {
    const WholeConvolution whole({2, 5, 4}, length);
    on_threads(kRanks, only("inproc"), [&](World& world) {
      for (const bool zig_zag : {false, true}) {
        const SequenceCut cut =
            zig_zag ? SequenceCut::zig_zag(length, kRanks) : SequenceCut::contiguous(length, kRanks);
        CausalConvolution<double> convolution(world.communicator(), whole.n, cut);
        run(world.communicator(), convolution, whole, cut.positions(world.rank()));
        std::vector<double> halos{static_cast<double>(convolution.sent_bytes()) / kHalo};
        world.communicator().all_reduce(halos).get();
        // Each way one for every piece but the first: 3, or 6 of 7 (the last rank's two are one).
        require(halos[0] == 2 * (zig_zag ? 6 : 3), fmt::format("{} halos", halos[0]));
        require(convolution.held_bytes() < 1024 * 10, "room for halos, not for tokens");
      }
    });
  }
}

TEST(CausalConvolution, LeavesWhatIsNoNumberWhereItIsSeen_AndDoesWithoutBias) {
  WholeConvolution whole({1, 2, 3}, 12);
  at(whole.x, 5 * 2) = std::numeric_limits<double>::quiet_NaN();  // token 5, channel 0
  on_threads(3, only("inproc"), [&](World& world) {
    const SequenceCut cut = SequenceCut::zig_zag(12, 3);
    const auto mine = cut.positions(world.rank());
    CausalConvolution<double> convolution(world.communicator(), whole.n, cut);
    const Values x = of(whole, whole.x, mine);
    Values y(x.size()), dx(x), dweight(whole.weight.size()),
        kept(static_cast<std::size_t>(convolution.kept_elements()));
    convolution.forward(x.data(), whole.weight.data(), nullptr, y.data(), kept.data());
    for (std::size_t i = 0; i < y.size(); ++i) {
      const std::int64_t p = mine[i / 2], channel = i % 2 == 0 ? 0 : 1;
      require(std::isnan(y[i]) == (channel == 0 && p >= 5 && p < 8), fmt::format("element {}", i));
      const double expected = at(whole.y, p * 2 + channel) - at(whole.bias, channel);
      require(std::isnan(y[i]) || std::abs(y[i] - expected) < 1e-12, "all but the bias");
    }
    convolution.backward(x.data(), kept.data(), whole.weight.data(), y.data(), dx.data(), dweight.data(), nullptr);
  });
}

TEST(CausalConvolution, SaysWhatDoesNotFit) {
  on_threads(2, only("inproc"), [](World& world) {
    const auto made = [&](const ConvolutionSizes& sizes, int ranks) {
      return complaint(
          [&] { CausalConvolution<float>(world.communicator(), sizes, SequenceCut::contiguous(8, ranks)); });
    };
    require(made({1, 2, 4}, 3) == "causal convolution: a sequence cut for 3 ranks, expected 2, those of the group",
            made({1, 2, 4}, 3));
    require(made({1, 2, 0}, 2) ==
                "causal convolution: 1 sequences of 2 channels, 0 tokens wide, expected 1 or more of each",
            made({1, 2, 0}, 2));
  });
}

}  // namespace
}  // namespace sinew::parallel
