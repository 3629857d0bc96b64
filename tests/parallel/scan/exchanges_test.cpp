#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/parallel/scan/halo_exchange.hpp>
#include <sinew/parallel/scan/sequence_exchange.hpp>
#include <support/worlds.hpp>

namespace sinew::parallel {
namespace {

using sinew::test::complaint;
using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;

/// Channel c of token t of sequence s.
double value(std::int64_t s, std::int64_t t, std::int64_t c) {
  return static_cast<double>(10000 * s + 100 * t + c + 1);
}

template <class F>
void for_each_own(const SequenceCut& cut, int rank, std::int64_t sequences, const F& f) {
  for (std::int64_t s = 0; s < sequences; ++s) {
    for (const std::int64_t t : cut.positions(rank)) f(s, t);
  }
}

TEST(HaloExchange, BringsTheTokensBeforeEachPiece_AndTheirGradientsBack) {
  constexpr std::int64_t kSequences = 2, kChannels = 3;
  for (const std::int64_t reach : {0, 1, 4, 9}) {
    for (const std::int64_t length : {0, 3, 17}) {
      on_threads(3, only("inproc"), [&](World& world) {
        const SequenceCut cut = SequenceCut::zig_zag(length, 3);
        HaloExchange<double> halo(world.communicator(), kSequences, kChannels, reach, cut);
        std::vector<double> tokens, got(static_cast<std::size_t>(halo.elements()), -1);
        for_each_own(cut, world.rank(), kSequences, [&](std::int64_t s, std::int64_t t) {
          for (std::int64_t c = 0; c < kChannels; ++c) tokens.push_back(value(s, t, c));
        });
        halo.forward(tokens.data(), got.data());
        std::size_t at = 0;
        for (const Rows& piece : cut.pieces(world.rank())) {
          for (std::int64_t s = 0; s < kSequences; ++s) {
            for (std::int64_t t = piece.first - reach; t < piece.first; ++t) {
              for (std::int64_t c = 0; c < kChannels; ++c) require(got[at++] == (t < 0 ? 0 : value(s, t, c)), "halo");
            }
          }
        }
        std::vector<double> slope(tokens.size(), 0.5), ones(got.size(), 1);
        halo.backward(ones.data(), slope.data());
        at = 0;
        for_each_own(cut, world.rank(), kSequences, [&](std::int64_t /*s*/, std::int64_t t) {
          double seen = 0.5;
          for (int r = 0; r < 3; ++r) {
            for (const Rows& piece : cut.pieces(r)) seen += t >= piece.first - reach && t < piece.first ? 1 : 0;
          }
          for (std::int64_t c = 0; c < kChannels; ++c) require(slope[at++] == seen, "gradients");
        });
      });
    }
  }
}

TEST(HaloExchange, SaysWhatDoesNotFit) {
  on_threads(2, only("inproc"), [](World& world) {
    const auto said = [&](std::int64_t sequences, std::int64_t channels, std::int64_t reach, int ranks) {
      return complaint([&] {
        HaloExchange<float>(world.communicator(), sequences, channels, reach, SequenceCut::contiguous(8, ranks));
      });
    };
    require(said(1, 1, 1, 1).find("cut for 1 ranks: expected 0 or more, 1 or more of each, and 2 ranks") !=
                std::string::npos,
            said(1, 1, 1, 1));
    for (const std::string& what : {said(0, 1, 1, 2), said(1, 0, 1, 2), said(1, 1, -1, 2), said(1, 1, 1, 3)})
      require(what.find("halo exchange: ") == 0, what);
  });
}

TEST(SequenceExchange, GoesThereAndBack) {
  constexpr std::int64_t kSequences = 2, kChannels = 5, kLength = 11;
  on_threads(3, only("inproc"), [&](World& world) {
    const SequenceCut cut = SequenceCut::zig_zag(kLength, 3);
    SequenceExchange<double> exchange(world.communicator(), kSequences, kChannels, cut);
    std::vector<double> tokens;
    for_each_own(cut, world.rank(), kSequences, [&](std::int64_t s, std::int64_t t) {
      for (std::int64_t c = 0; c < kChannels; ++c) tokens.push_back(value(s, t, c));
    });
    const Rows own = exchange.channels();
    std::vector<double> channels(static_cast<std::size_t>(kSequences * kLength * own.count()), -1),
        back(tokens.size(), -1);
    exchange.to_channels({tokens.data()}, {channels.data()});
    std::size_t at = 0;
    for (std::int64_t s = 0; s < kSequences; ++s) {
      for (std::int64_t t = 0; t < kLength; ++t) {
        for (std::int64_t c = own.first; c < own.last; ++c) require(channels[at++] == value(s, t, c), "channels");
      }
    }
    exchange.to_tokens({channels.data()}, {back.data()});
    require(back == tokens, "tokens");
    std::vector<double> whole(static_cast<std::size_t>(kSequences * kLength * kChannels), -1), sum(tokens.size(), -1);
    exchange.gather({tokens.data()}, kChannels, {whole.data()});
    exchange.sum({whole.data()}, kChannels, {sum.data()});
    for (std::size_t i = 0; i < sum.size(); ++i) require(sum[i] == 3 * tokens[i], "the sum of what was gathered");
  });
}

TEST(SequenceExchange, SaysWhatDoesNotFit) {
  on_threads(2, only("inproc"), [](World& world) {
    const auto said = [&](std::int64_t sequences, std::int64_t channels, int ranks) {
      return complaint([&] {
        SequenceExchange<float>(world.communicator(), sequences, channels, SequenceCut::contiguous(8, ranks));
      });
    };
    require(said(3, 4, 1) ==
                "sequence exchange: 3 sequences of 4 channels, cut for 1 ranks: expected 1 or more of each, and 2 "
                "ranks, those of the group",
            said(3, 4, 1));
    for (const std::string& what : {said(0, 1, 2), said(1, 0, 2), said(1, 1, 3)})
      require(what.find("sequence exchange: ") == 0, what);
  });
}

}  // namespace
}  // namespace sinew::parallel
