#include <algorithm>
#include <cmath>
#include <string>
#include <type_traits>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sinew/parallel/context/context_attention.hpp>
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
using test::WholeAttention;
using test::worst;

struct Part {
  Values out, dq, dk, dv, dsinks;
  std::size_t sent = 0;
};

/// Queries, keys and values side by side in a row, as one layer makes them.
Part run(ContextAttention<double>& attention, const WholeAttention& whole, const std::vector<std::int64_t>& mine,
         const ContextShape& shape, int rank) {
  const std::int64_t width = whole.h.width(), shared = whole.h.key_value_width(), row = width + 2 * shared;
  const Values q = picked(whole.q, mine, width, whole.length), k = picked(whole.k, mine, shared, whole.length),
               v = picked(whole.v, mine, shared, whole.length), dout = picked(whole.dout, mine, width, whole.length);
  const std::int64_t tokens = std::ssize(q) / width;
  Values in(static_cast<std::size_t>(tokens * row)), to(in.size(), 9);
  for (std::int64_t t = 0; t < tokens; ++t) {
    std::copy_n(q.begin() + t * width, width, in.begin() + t * row);
    std::copy_n(k.begin() + t * shared, shared, in.begin() + t * row + width);
    std::copy_n(v.begin() + t * shared, shared, in.begin() + t * row + width + shared);
  }
  std::vector<AttentionMask> masks;
  for (const Sight& s : whole.sight) masks.push_back(s.mask());
  const auto at = [&](auto* data) {
    return Projections<std::remove_reference_t<decltype(*data)>>{data, data + width, data + width + shared, row, row};
  };
  Values kept(ContextAttention<double>::kept_for(shape, rank));
  Part p{Values(q.size()), Values(q.size()), Values(k.size()), Values(k.size()), Values(whole.sinks.size())};
  const double* sinks = whole.sinks.empty() ? nullptr : whole.sinks.data();
  attention.forward(masks, at(static_cast<const double*>(in.data())), p.out.data(), kept.data(), sinks);
  attention.backward(masks, at(static_cast<const double*>(in.data())), p.out.data(), kept.data(), dout.data(),
                     at(to.data()), sinks, p.dsinks.data());
  for (std::int64_t t = 0; t < tokens; ++t) {
    std::copy_n(to.begin() + t * row, width, p.dq.begin() + t * width);
    std::copy_n(to.begin() + t * row + width, shared, p.dk.begin() + t * shared);
    std::copy_n(to.begin() + t * row + width + shared, shared, p.dv.begin() + t * shared);
  }
  return p;
}

/// Two sequences: one document, and several of odd lengths.
std::vector<Sight> sights(std::int64_t length, bool causal) {
  std::vector<int> documents;
  for (std::int64_t p = 0; p < length; ++p) documents.push_back(static_cast<int>(p / 7 + (p > 20 ? 1 : 0)));
  return {Sight{causal, {}}, Sight{causal, documents}};
}

void compare(World& world, const WholeAttention& whole, const SequenceCut& cut, int sharing) {
  Communicator inner = world.communicator().split(world.rank() / sharing);
  Communicator ring = world.communicator().split(world.rank() % sharing);
  test::NaiveBlas blas;
  const ContextShape shape{whole.h, cut, sharing, std::ssize(whole.sight)};
  ContextAttention<double> attention(inner, ring, blas, shape);
  const auto mine = cut.positions(world.rank());
  const Part p = run(attention, whole, mine, shape, world.rank());
  const std::string which =
      fmt::format("{} ranks, {} share {} heads, {} long: ", world.size(), sharing, whole.h.heads, whole.length);
  const auto same = [&](const Values& part, const Values& all, std::int64_t width, const char* what) {
    require(worst(part, picked(all, mine, width, whole.length)) < 1e-12, which + what);
  };
  same(p.out, whole.out, whole.h.width(), "out");
  same(p.dq, whole.dq, whole.h.width(), "queries");
  same(p.dk, whole.dk, whole.h.key_value_width(), "keys");
  same(p.dv, whole.dv, whole.h.key_value_width(), "values");
  Values dsinks = p.dsinks;
  world.communicator().all_reduce(dsinks).get();
  require(worst(dsinks, whole.dsinks) < 1e-12, which + "sinks");
  require(attention.held_bytes() == ContextAttention<double>::room_for(shape, world.rank()) * sizeof(double),
          which + "room");
}

TEST(ContextAttention, IsThatOfTheWholeSequence_HoweverRanksShareHeads) {
  for (const AttentionHeads& heads :
       {AttentionHeads{5, 5, 3}, AttentionHeads{6, 2, 2}, AttentionHeads{3, 2, 2, 2, 1}}) {
    for (const std::int64_t length : {1, 5, 37, 150}) {
      for (const bool causal : {false, true}) {
        if (length == 150 && heads.heads == 5) continue;
        const WholeAttention whole(heads, length, sights(length, causal),
                                   causal ? test::wave(heads.heads, 7) : Values{});
        for (int ranks = 1; ranks <= 8; ++ranks) {
          on_threads(ranks, only("inproc"), [&](World& world) {
            for (int sharing = 1; sharing <= ranks; ++sharing) {
              if (ranks % sharing != 0) continue;
              compare(world, whole, SequenceCut::zig_zag(length, ranks), sharing);
              compare(world, whole, SequenceCut::contiguous(length, ranks), sharing);
            }
          });
        }
      }
    }
  }
}

TEST(ContextAttention, IsToldFromOneWithAnotherMask) {
  const WholeAttention causal({2, 2, 3}, 20, {Sight{true, {}}}), full({2, 2, 3}, 20, {Sight{false, {}}});
  on_threads(2, only("inproc"), [&](World& world) {
    test::NaiveBlas blas;
    Communicator alone;
    const ContextShape shape{causal.h, SequenceCut::zig_zag(20, 2), 1, 1};
    ContextAttention<double> attention(alone, world.communicator(), blas, shape);
    const auto mine = shape.cut.positions(world.rank());
    const Part p = run(attention, causal, mine, shape, world.rank());
    require(worst(p.out, picked(full.out, mine, 6, 20)) > 1e-3 && worst(p.dk, picked(full.dk, mine, 6, 20)) > 1e-3,
            "it must show");
  });
}

/// Documents cut one by one: work is equal though they are short, and what they make is what one rank makes.
TEST(ContextAttention, SharesTheWorkOfPackedDocuments) {
  const std::vector<std::int64_t> lengths{40, 3, 17, 64, 1, 25};
  std::vector<int> documents;
  for (std::size_t d = 0; d < lengths.size(); ++d) {
    for (std::int64_t i = 0; i < lengths[d]; ++i) documents.push_back(static_cast<int>(d));
  }
  const WholeAttention whole({2, 1, 2}, std::ssize(documents), {Sight{true, documents}});
  for (int ranks = 1; ranks <= 6; ++ranks) {
    const SequenceCut cut = SequenceCut::zig_zag(lengths, ranks);
    on_threads(ranks, only("inproc"), [&](World& world) { compare(world, whole, cut, 1); });
    std::int64_t least = 1 << 30, most = 0;
    for (int r = 0; r < ranks; ++r) {
      least = std::min(least, cut.tokens(r)), most = std::max(most, cut.tokens(r));
    }
    EXPECT_LE(most - least, 1) << ranks;
  }
}

/// Of what travels by heads a rank keeps its own part; of keys and values that several need each gets a copy.
TEST(ContextAttention, SendsWhatIsPredicted_WhereHeadsAreShared) {
  constexpr int kRanks = 4;
  constexpr std::int64_t kLength = 64, kWidth = 8 * 2;
  const WholeAttention whole({8, 8, 2}, kLength, {Sight{}});
  on_threads(kRanks, only("inproc"), [&](World& world) {
    test::NaiveBlas blas;
    Communicator alone;
    const ContextShape shape{whole.h, SequenceCut::zig_zag(kLength, kRanks), kRanks, 1};
    ContextAttention<double> attention(world.communicator(), alone, blas, shape);
    static_cast<void>(run(attention, whole, shape.cut.positions(world.rank()), shape, world.rank()));
    // Forward queries, keys, values, out; backward the gradients of these: each P - 1 parts in P of a rank's tokens.
    const std::size_t each = kLength / kRanks * kWidth * sizeof(double) * (kRanks - 1) / kRanks;
    require(attention.sent_bytes() == 8 * each, fmt::format("{} of {}", attention.sent_bytes(), 8 * each));
  });
}

/// <f(x), y> = <x, f'(y)>, some heads being wanted by several ranks and some ranks having no token.
TEST(HeadExchange, IsTheTransposeOfItsWayBack) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    on_threads(ranks, only("inproc"), [&](World& world) {
      constexpr std::int64_t kHeads = 5, kWidth = 2, kSequences = 2;
      for (const std::int64_t length : {3, 20}) {
        const SequenceCut cut = SequenceCut::zig_zag(length, ranks);
        HeadExchangeShape shape{{}, {}, kHeads, kWidth, kSequences};
        for (int r = 0; r < ranks; ++r) {
          shape.pieces.push_back(cut.pieces(r));
          const Rows some = rows_of({}, r, ranks, kHeads);
          shape.heads.push_back({std::max<std::int64_t>(some.first - 1, 0), some.last});
        }
        HeadExchange<double> exchange(world.communicator(), shape);
        const std::int64_t own = kSequences * cut.tokens(world.rank()) * kHeads * kWidth;
        const Values x = test::wave(own, world.rank()), y = test::wave(exchange.elements_by_heads(), world.rank() + 9);
        Values fx(y.size()), fy(x.size());
        exchange.to_heads(x.data(), kHeads * kWidth, fx.data());
        exchange.to_tokens(y.data(), fy.data(), kHeads * kWidth);
        Values sums(2);
        for (std::size_t i = 0; i < y.size(); ++i) sums[0] += fx[i] * y[i];
        for (std::size_t i = 0; i < x.size(); ++i) sums[1] += x[i] * fy[i];
        world.communicator().all_reduce(sums).get();
        require(std::abs(sums[0] - sums[1]) < 1e-12 * std::max(1.0, std::abs(sums[0])),
                fmt::format("{} and {}", sums[0], sums[1]));
      }
    });
  }
}

TEST(ContextAttention, SaysWhatDoesNotFit) {
  on_threads(2, only("inproc"), [](World& world) {
    test::NaiveBlas blas;
    Communicator alone;
    const std::string said = complaint([&] {
      ContextAttention<float>(world.communicator(), alone, blas, {{2, 2, 4}, SequenceCut::zig_zag(8, 4), 2, 1});
    });
    require(said ==
                "context attention: a sequence cut for 4 ranks, 2 of which share heads; expected 2 and 2, those of "
                "the groups",
            said);
    const auto refused = [&](const ContextShape& shape, int rank) {
      const std::string why = complaint([&] { ContextAttention<float>::kept_for(shape, rank); });
      require(why.find("context attention: ") == 0 || why.find("attention: ") == 0, why);
    };
    refused({{2, 2, 4}, SequenceCut::zig_zag(8, 4), 0, 1}, 0);
    refused({{2, 2, 4}, SequenceCut::zig_zag(8, 4), 3, 1}, 0);
    refused({{2, 2, 4}, SequenceCut::zig_zag(8, 4), 2, 0}, 0);
    refused({{2, 2, 4}, SequenceCut::zig_zag(8, 4), 2, 1}, 4);
    refused({{2, 0, 4}, SequenceCut::zig_zag(8, 4), 2, 1}, 0);
    const std::string heads = complaint([&] {
      HeadExchange<float>(world.communicator(), {{{{0, 4}}, {{4, 8}}}, {{0, 1}, {1, 400000}}, 4, 2, 1});
    });
    require(heads.find("expected 1 or more sequences and elements, and parts of these heads") != std::string::npos,
            heads);
  });
}

}  // namespace
}  // namespace sinew::parallel
