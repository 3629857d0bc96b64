#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sinew/parallel/context/invariant_attention.hpp>
#include <sinew/parallel/invariant/invariant_blas.hpp>
#include <support/worlds.hpp>

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

struct Made {
  Values out, lse, dq, dk, dv;
};

/// What a rank's attention makes of the whole's inputs.
Made attend(Communicator& group, const WholeAttention& whole, const SequenceCut& cut, int rank) {
  const AttentionHeads& h = whole.h;
  const auto sequences = static_cast<std::int64_t>(whole.sight.size());
  const std::vector<std::int64_t> positions = cut.positions(rank);
  const auto mine = [&](const Values& of, std::int64_t width) { return picked(of, positions, width, whole.length); };
  std::vector<AttentionMask> masks;
  for (const Sight& sight : whole.sight) masks.push_back(sight.mask());
  const Values q = mine(whole.q, h.width()), k = mine(whole.k, h.key_value_width()),
               v = mine(whole.v, h.key_value_width());
  const Values dout = mine(whole.dout, h.width());
  InvariantBlas blas;
  InvariantAttention<double> attention(group, blas, h, cut, sequences);
  Made made{Values(q.size()), Values(q.size() / static_cast<std::size_t>(h.head_width)), Values(q.size()),
            Values(k.size()), Values(v.size())};
  const Projections<const double> in{q.data(), k.data(), v.data(), h.width(), h.key_value_width()};
  attention.forward(masks, in, made.out.data(), made.lse.data());
  attention.backward(masks, in, made.out.data(), made.lse.data(), dout.data(),
                     {made.dq.data(), made.dk.data(), made.dv.data(), h.width(), h.key_value_width()});
  return made;
}

std::vector<WholeAttention> cases() {
  std::vector<int> documents(96);
  for (std::size_t p = 0; p < documents.size(); ++p)
    documents[p] = static_cast<int>(p >= 5) + static_cast<int>(p >= 50);
  std::vector<WholeAttention> all;
  all.emplace_back(AttentionHeads{2, 2, 4}, 16, std::vector<Sight>(1));
  all.emplace_back(AttentionHeads{4, 2, 5}, 96, std::vector<Sight>{{}, {true, documents}});
  all.emplace_back(AttentionHeads{2, 1, 3}, 64, std::vector<Sight>{{false, {}}, {false, {}}});
  return all;
}

TEST(InvariantAttention, IsAttention) {
  on_threads(1, only("inproc"), [&](World& world) {
    for (const WholeAttention& whole : cases()) {
      const Made made = attend(world.communicator(), whole, SequenceCut::zig_zag(whole.length, 1), 0);
      for (const auto& [mine, theirs] :
           {std::pair(made.out, whole.out), {made.dq, whole.dq}, {made.dk, whole.dk}, {made.dv, whole.dv}})
        require(worst(mine, theirs) < 1e-12, fmt::format("off by {}", worst(mine, theirs)));
    }
  });
}

TEST(InvariantAttention, HasTheBitsOfOneRank_OnAnyNumber) {
  for (const WholeAttention& whole : cases()) {
    Made alone;
    on_threads(1, only("inproc"), [&](World& world) {
      alone = attend(world.communicator(), whole, SequenceCut::zig_zag(whole.length, 1), 0);
    });
    for (const int ranks : {2, 4, 8}) {
      on_threads(ranks, only("inproc"), [&](World& world) {
        for (const SequenceCut& cut :
             {SequenceCut::zig_zag(whole.length, ranks), SequenceCut::contiguous(whole.length, ranks)}) {
          const Made made = attend(world.communicator(), whole, cut, world.rank());
          const auto same = [&](const Values& mine, const Values& all, std::int64_t width, const char* name) {
            require(mine == picked(all, cut.positions(world.rank()), width, whole.length), name);
          };
          same(made.out, alone.out, whole.h.width(), "out");
          same(made.lse, alone.lse, whole.h.heads, "lse");
          same(made.dq, alone.dq, whole.h.width(), "dq");
          same(made.dk, alone.dk, whole.h.key_value_width(), "dk");
          same(made.dv, alone.dv, whole.h.key_value_width(), "dv");
        }
      });
    }
  }
}

TEST(InvariantAttention, RefusesPartsThatAreNotEqual) {
  on_threads(2, only("inproc"), [&](World& world) {
    InvariantBlas blas;
    const std::string why = complaint([&] {
      InvariantAttention<float>(world.communicator(), blas, AttentionHeads{1, 1, 2}, SequenceCut::zig_zag(9, 2));
    });
    require(why.find("9 positions on 2 ranks") != std::string::npos, why);
  });
}

}  // namespace
}  // namespace sinew::parallel
