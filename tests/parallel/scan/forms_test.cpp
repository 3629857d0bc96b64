#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sinew/parallel/scan/channel_scan.hpp>
#include <sinew/parallel/scan/state_scan.hpp>
#include <support/worlds.hpp>

#include "whole_scan.hpp"

namespace sinew::parallel {
namespace {

using sinew::test::complaint;
using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;
using test::at;
using test::PartOfScan;
using test::ScanPart;
using test::Values;
using test::WholeScan;
using test::worst;

SequenceCut cut_of(bool zig_zag, std::int64_t length, int ranks) {
  return zig_zag ? SequenceCut::zig_zag(length, ranks) : SequenceCut::contiguous(length, ranks);
}

/// Forward and backward of this rank's tokens; the shares of a's and skip's gradients are summed over the group.
template <class Form>
ScanPart run(Communicator& group, Form& form, const WholeScan& whole, const std::vector<std::int64_t>& mine) {
  PartOfScan part(whole, mine);
  Values kept(static_cast<std::size_t>(form.kept_elements()), 9);
  form.forward(part.in, part.out.y.data(), kept.data());
  form.backward(part.in, kept.data(), part.dy.data(), part.to);
  if (group.size() > 1) {
    group.all_reduce(part.out.da).get();
    group.all_reduce(part.out.dskip).get();
  }
  return part.out;
}

void require_equal(const ScanPart& p, const ScanPart& expected, const std::string& which) {
  require(worst(p.y, expected.y) < 1e-12, which + "y");
  require(worst(p.dx, expected.dx) < 1e-12, which + "gradient of x");
  require(worst(p.ddt, expected.ddt) < 1e-12, which + "gradient of dt");
  require(worst(p.db, expected.db) < 1e-12, which + "gradient of b");
  require(worst(p.dc, expected.dc) < 1e-12, which + "gradient of c");
  require(worst(p.da, expected.da) < 1e-12, which + "gradient of a");
  require(worst(p.dskip, expected.dskip) < 1e-12, which + "gradient of skip");
}

ScanPart expected_of(const WholeScan& w, const std::vector<std::int64_t>& mine) {
  const auto of = [&](const Values& v, std::int64_t width) { return PartOfScan::of(w, v, mine, width); };
  return {of(w.y, w.n.channels),
          of(w.dx, w.n.channels),
          of(w.ddt, w.n.channels),
          of(w.db, w.n.states),
          of(w.dc, w.n.states),
          w.da,
          w.dskip};
}

TEST(ScanForms, AreThatOfTheWholeSequence_AndEachOther) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    for (const ScanSizes& sizes : {ScanSizes{1, 5, 3}, ScanSizes{3, 18, 2}}) {
      for (const std::int64_t length : {0, 1, 5, 37, 150}) {
        const WholeScan whole(sizes, length);
        on_threads(ranks, only("inproc"), [&](World& world) {
          for (const bool zig_zag : {false, true}) {
            const SequenceCut cut = cut_of(zig_zag, length, ranks);
            const auto mine = cut.positions(world.rank());
            const std::string which = fmt::format("{} ranks, {} long, zig-zag {}: ", ranks, length, zig_zag);
            StateScan<double> states(world.communicator(), sizes, cut);
            ChannelScan<double> channels(world.communicator(), sizes, cut);
            const ScanPart one = run(world.communicator(), states, whole, mine);
            const ScanPart other = run(world.communicator(), channels, whole, mine);
            require_equal(one, expected_of(whole, mine), which + "states: ");
            require_equal(other, expected_of(whole, mine), which + "channels: ");
            require_equal(one, other, which + "both: ");
          }
        });
      }
    }
  }
}

/// As a group of one by itself, and as one that has no communicator.
TEST(ScanForms, SendNothing_WhereThereIsNobodyElse) {
  const WholeScan whole({2, 3, 4}, 37);
  const SequenceCut cut = SequenceCut::zig_zag(37, 1);
  on_threads(2, only("inproc"), [&](World& world) {
    Communicator alone = world.communicator().split(world.rank()), none;
    for (Communicator* group : {&alone, &none}) {
      StateScan<double> states(*group, whole.n, cut);
      ChannelScan<double> channels(*group, whole.n, cut);
      require_equal(run(*group, states, whole, cut.positions(0)), expected_of(whole, cut.positions(0)), "states: ");
      require_equal(run(*group, channels, whole, cut.positions(0)), expected_of(whole, cut.positions(0)), "channels: ");
      require(states.sent_bytes() == 0 && channels.sent_bytes() == 0, "nothing to send");
    }
  });
}

TEST(ScanForms, AreToldFromScansThatForgetWhatEnters) {
  const WholeScan whole({1, 3, 4}, 36);
  on_threads(3, only("inproc"), [&](World& world) {
    const auto mine = SequenceCut::contiguous(36, 3).positions(world.rank());
    SelectiveScan<double> scan(whole.n, 12);
    PartOfScan part(whole, mine);
    scan.forward(part.in, {0, 12}, nullptr, part.out.y.data(), nullptr);
    scan.backward(part.in, {0, 12}, nullptr, part.dy.data(), nullptr, part.to, nullptr);
    const ScanPart expected = expected_of(whole, mine);
    require((worst(part.out.y, expected.y) > 1e-3) == (world.rank() > 0), "a state that does not enter must show");
    require((worst(part.out.db, expected.db) > 1e-3) == (world.rank() < 2), "a gradient that does not must, too");
  });
}

/// Messages of a state and its sum of dt; how many follows from the chain of pieces: one on 2^k places from each, in
/// every round k, but for those that stay on a rank.
TEST(StateScan, SendsStates_WhateverTheLength) {
  constexpr int kRanks = 8;
  const ScanSizes sizes{2, 3, 4};
  constexpr double kMessage = 2 * (3 + 3 * 4) * sizeof(double);
  for (const std::int64_t length : {64, 640}) {
    const WholeScan whole(sizes, length);
    on_threads(kRanks, only("inproc"), [&](World& world) {
      for (const bool zig_zag : {false, true}) {
        const SequenceCut cut = cut_of(zig_zag, length, kRanks);
        StateScan<double> scan(world.communicator(), sizes, cut);
        run(world.communicator(), scan, whole, cut.positions(world.rank()));
        const double sent = static_cast<double>(scan.sent_bytes()) / kMessage;
        std::vector<double> sum{sent}, most{sent};
        world.communicator().all_reduce(sum).get();
        world.communicator().all_reduce(most, ReduceOp::Max).get();
        // Of 8 pieces 7, 6 and 4 have one 1, 2 and 4 places on; of 15 (the last rank's two are one) 14, 13, 11 and 7,
        // of which three have it on their own rank: those around the middle.
        require(sum[0] == 2 * (zig_zag ? 14 + 13 + 11 + 7 - 3 : 7 + 6 + 4), fmt::format("{} messages", sum[0]));
        require(most[0] <= 2 * (zig_zag ? 2 * 4 : 3), fmt::format("{} messages of a rank", most[0]));
      }
    });
  }
}

TEST(ChannelScan, SendsAndHoldsWhatItSays) {
  const WholeScan whole({3, 8, 4}, 64);
  on_threads(4, only("inproc"), [&](World& world) {
    for (const bool zig_zag : {false, true}) {
      const SequenceCut cut = cut_of(zig_zag, 64, 4);
      ChannelScan<double> scan(world.communicator(), whole.n, cut);
      require(scan.kept_elements() == std::int64_t{3} * 64 * 2 * (2 + 4), "two channels, four states");
      run(world.communicator(), scan, whole, cut.positions(world.rank()));
      const std::size_t each_way = 3 * (3 * 16 * 8 * 3 / 4 + 2 * 3 * 16 * 4) * sizeof(double);
      require(scan.sent_bytes() == 2 * each_way, fmt::format("{} bytes", scan.sent_bytes()));
      const auto kept = static_cast<std::size_t>(scan.kept_elements()) * sizeof(double);
      require(scan.held_bytes() < 4 * kept, fmt::format("{} bytes held, {} kept", scan.held_bytes(), kept));
    }
  });
}

TEST(ScanForms, LeaveWhatIsNoNumberWhereItIsSeen) {
  WholeScan whole({2, 3, 2}, 12);
  at(whole.x, 5 * 3) = std::numeric_limits<double>::quiet_NaN();  // first sequence, token 5, channel 0
  on_threads(3, only("inproc"), [&](World& world) {
    const SequenceCut cut = SequenceCut::zig_zag(12, 3);
    const auto mine = cut.positions(world.rank());
    StateScan<double> states(world.communicator(), whole.n, cut);
    ChannelScan<double> channels(world.communicator(), whole.n, cut);
    for (const Values& y :
         {run(world.communicator(), states, whole, mine).y, run(world.communicator(), channels, whole, mine).y}) {
      for (std::size_t i = 0; i < y.size(); ++i) {
        const bool seen = i < mine.size() * 3 && mine[i / 3] >= 5 && i % 3 == 0;
        require(std::isnan(y[i]) == seen, fmt::format("element {}", i));
      }
    }
  });
}

TEST(ScanForms, SayWhatDoesNotFit) {
  on_threads(2, only("inproc"), [](World& world) {
    Communicator& group = world.communicator();
    const auto states = [&](const ScanSizes& sizes, int ranks) {
      return complaint([&] { StateScan<float>(group, sizes, SequenceCut::zig_zag(8, ranks)); });
    };
    const auto channels = [&](const ScanSizes& sizes, int ranks) {
      return complaint([&] { ChannelScan<float>(group, sizes, SequenceCut::zig_zag(8, ranks)); });
    };
    require(states({1, 2, 2}, 3) == "state scan: a sequence cut for 3 ranks, expected 2, those of the group",
            states({1, 2, 2}, 3));
    require(channels({1, 2, 2}, 1) == "channel scan: a sequence cut for 1 ranks, expected 2, those of the group",
            channels({1, 2, 2}, 1));
    require(states({0, 2, 2}, 2) == "state scan: 0 sequences of 2 channels with 2 states, expected 1 or more of each",
            states({0, 2, 2}, 2));
    require(channels({1, 0, 2}, 2).find("of 0 channels with") != std::string::npos, channels({1, 0, 2}, 2));
  });
}

}  // namespace
}  // namespace sinew::parallel
