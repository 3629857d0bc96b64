// Messages of many pieces, of which the receiver grants a few at a time.
#include <algorithm>
#include <deque>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/ranks.hpp"
#include "transports/ofi/pair.hpp"

namespace sinew::test {
namespace {

constexpr std::size_t kPiece = 1000;

struct PiecesCase {
  std::string name;
  const char* provider;
  void (*run)(int ranks, const RankBody& body);
};

void pieces_of_threads(int ranks, const RankBody& body) { run_as_threads(ranks, body); }

class OfiPieces : public testing::TestWithParam<PiecesCase> {
 protected:
  /// Both ranks send each other messages of these lengths, all at once, and find what the other has sent.
  static void exchange(const std::vector<std::size_t>& lengths) {
    GetParam().run(2, [&](const Exchange& world) {
      Rank me(world, [](const Exchange& w) -> Rail {
        ofi::Options o = ofi_options(w.rank, GetParam().provider);
        o.eager_bytes = 100;
        o.largest_piece = kPiece;
        return ofi::make_transport(o);
      });
      Endpoint& peer = me.peer(1 - me.rank());
      std::deque<Watched> sends(lengths.size()), receives(lengths.size());
      std::vector<std::vector<std::byte>> out, in;
      for (std::size_t i = 0; i < lengths.size(); ++i) {
        const auto tag = static_cast<std::uint32_t>(i);
        out.push_back(pattern(lengths[i], tag + static_cast<unsigned>(me.rank())));
        in.emplace_back(lengths[i]);
        peer.recv({view(in[i])}, user(tag), receives[i]);
        peer.send(view(out[i]), user(tag), 0, sends[i]);
      }
      const auto all_done = [](const std::deque<Watched>& all) { return std::ranges::all_of(all, &Watched::done); };
      if (!me.until([&] { return all_done(sends) && all_done(receives); }, "all messages")) return;
      for (std::size_t i = 0; i < lengths.size(); ++i) {
        EXPECT_TRUE(receives[i].status.ok() && sends[i].status.ok());
        EXPECT_TRUE(in[i] == pattern(lengths[i], static_cast<unsigned>(i) + static_cast<unsigned>(1 - me.rank())))
            << lengths[i] << " bytes";
      }
      me.barrier_with_progress();
    });
  }
};

TEST_P(OfiPieces, EveryNumberOfThem_Comes) {
  std::vector<std::size_t> lengths;
  for (std::size_t pieces = 1; pieces <= 12; ++pieces)
    for (const std::size_t bytes : {pieces * kPiece - 1, pieces * kPiece, pieces * kPiece + 1})
      lengths.push_back(bytes);
  exchange(lengths);
}

/// Where the provider has no more room for receives, some messages have one piece posted at a time, or none.
TEST_P(OfiPieces, MoreMessagesThanTheProviderHasReceives_Come) { exchange(std::vector<std::size_t>(2000, 7 * kPiece)); }

INSTANTIATE_TEST_SUITE_P(ofi, OfiPieces,
                         testing::Values(PiecesCase{"tcp", kTcp, pieces_of_threads},
                                         PiecesCase{"shm", kShm, run_as_processes}),
                         [](const auto& p) { return p.param.name; });

}  // namespace
}  // namespace sinew::test
