#include <algorithm>
#include <vector>

#include <sinew/collectives/algorithms/families.hpp>
#include <sinew/collectives/schedule/builder.hpp>

namespace sinew {
namespace {

// Source: Bruck, Ho, Kipnis, Upfal and Weathersby, Efficient algorithms for all-to-all communications in multiport
//         message-passing systems, 1997. Mirrored for sums, and with distances that halve instead of double, so that no
//         rank sends a block twice: Traeff, Optimal, non-pipelined reduce-scatter and allreduce algorithms, 2024.

/// One round: a rank has `have` blocks, its own and those of its right neighbours, and gets `more` from `have` to its
/// right.
struct Round {
  int have = 1;
  int more = 1;
};

std::vector<Round> rounds_for(int ranks) {
  std::vector<Round> rounds;
  for (int after = ranks; after > 1; after = rounds.back().have) rounds.push_back({(after + 1) / 2, after / 2});
  std::reverse(rounds.begin(), rounds.end());
  return rounds;
}

/// Calls f(first, offset, count) for `count` chunks from that of rank `first` on: a run, or two where it goes over the
/// end.
template <class F>
void each_run(int first, int count, int ranks, F&& f) {
  const int before = std::min(count, ranks - first);
  f(first, 0, before);
  if (before < count) f(0, before, count - before);
}

void gather_to_all(ProgramBuilder& b, int rank, int ranks) {
  for (const auto [have, more] : rounds_for(ranks)) {
    each_run(rank, more, ranks, [&, to = b.left(have)](int first, int, int n) { b.send(to, b.out(first, n)); });
    const int from = b.right(have);
    each_run(from, more, ranks, [&](int first, int, int n) { b.recv(from, b.out(first, n)); });
  }
}

/// The way back of gather_to_all: partial sums go where the blocks would have come from. `sums(first, offset, count)`
/// is where those of chunks wait; this rank's own is done in `mine`.
template <class Sums>
void reduce_to_owner(ProgramBuilder& b, int rank, int ranks, Slice mine, Sums&& sums) {
  const std::vector<Round> rounds = rounds_for(ranks);
  if (ranks == 1) b.copy(mine, b.in(rank), Sum::Complete);
  for (auto round = rounds.rbegin(); round != rounds.rend(); ++round) {
    const auto [have, more] = *round;
    const bool first_round = round == rounds.rbegin();
    const bool last_round = have == 1;
    const int to = b.right(have);
    each_run(to, more, ranks, [&](int first, int offset, int n) {
      b.send(to, first_round ? b.in(first, n) : sums(first, have + offset, n));
    });
    each_run(rank, more, ranks, [&, from = b.left(have)](int first, int offset, int n) {
      const Slice sum = last_round ? mine : sums(first, offset, n);
      const Slice to_add = first_round ? b.in(first, n) : sums(first, offset, n);
      b.recv_reduce(from, sum, to_add, last_round ? Sum::Complete : Sum::Partial);
    });
    if (first_round && more < have) b.copy(sums(b.right(more), more, 1), b.in(b.right(more)));
  }
}

Program all_gather(const CollectiveDesc& desc, int rank, int ranks, bool in_place) {
  ProgramBuilder b(desc, rank, ranks, in_place);
  b.keep_whole();
  b.copy(b.out(rank), b.in());
  gather_to_all(b, rank, ranks);
  return b.build();
}

Program reduce_scatter(const CollectiveDesc& desc, int rank, int ranks, bool in_place) {
  ProgramBuilder b(desc, rank, ranks, in_place);
  b.keep_whole();
  Slice sums;
  const int waiting = ranks > 2 ? (ranks + 1) / 2 : 0;
  for (int k = 0; k < waiting; ++k) {
    const Slice next = b.scratch_like(b.in(b.right(k)));
    if (k == 0) sums = next;
  }
  reduce_to_owner(b, rank, ranks, b.out(), [&](int, int offset, int n) { return sums.part(offset, n); });
  return b.build();
}

Program all_reduce(const CollectiveDesc& desc, int rank, int ranks, bool in_place) {
  ProgramBuilder b(desc, rank, ranks, in_place, ranks);
  b.keep_whole();
  reduce_to_owner(b, rank, ranks, b.out(rank), [&](int first, int, int n) { return b.out(first, n); });
  gather_to_all(b, rank, ranks);
  return b.build();
}

AlgorithmCost reduce_scatter_cost(const CollectiveDesc&, int ranks) {
  const double part = (ranks - 1.0) / ranks;
  return {.rounds = static_cast<double>(ceil_log2(ranks)),
          .sent = part,
          .received = part,
          .serial = part,
          .reduced = part,
          .scratch = ranks > 2 ? (ranks + 1) / 2 / static_cast<double>(ranks) : 0,
          .whole = true};
}

/// A round waits only for those that brought what it passes on.
AlgorithmCost all_gather_cost(const CollectiveDesc&, int ranks) {
  struct Brought {
    int first, rounds, blocks;
  };
  std::vector<Brought> brought;
  Brought longest{0, 0, 0};
  for (const auto [have, more] : rounds_for(ranks)) {
    Brought now{have, 0, 0};
    for (const Brought& earlier : brought) {
      if (earlier.first >= more) continue;
      now.rounds = std::max(now.rounds, earlier.rounds);
      now.blocks = std::max(now.blocks, earlier.blocks);
    }
    now.rounds += 1;
    now.blocks += more;
    brought.push_back(now);
    longest.rounds = std::max(longest.rounds, now.rounds);
    longest.blocks = std::max(longest.blocks, now.blocks);
  }
  const double part = (ranks - 1.0) / ranks;
  return {.rounds = static_cast<double>(longest.rounds),
          .sent = part,
          .received = part,
          .serial = longest.blocks / static_cast<double>(ranks),
          .whole = true};
}

AlgorithmCost all_reduce_cost(const CollectiveDesc& desc, int ranks) {
  const AlgorithmCost there = reduce_scatter_cost(desc, ranks);
  const AlgorithmCost back = all_gather_cost(desc, ranks);
  return {.rounds = there.rounds + back.rounds,
          .sent = there.sent + back.sent,
          .received = there.received + back.received,
          .serial = there.serial + back.serial,
          .reduced = there.reduced,
          .whole = true};
}

constexpr Algorithm kBruck[] = {
    {"bruck", Collective::AllReduce, any_ranks, all_reduce, all_reduce_cost},
    {"bruck", Collective::AllGather, parts_in_runs, all_gather, all_gather_cost},
    {"bruck", Collective::ReduceScatter, parts_in_runs, reduce_scatter, reduce_scatter_cost}};

}  // namespace

std::span<const Algorithm> bruck_family() noexcept { return kBruck; }

}  // namespace sinew
