#include <algorithm>

#include <sinew/collectives/algorithms/families.hpp>
#include <sinew/collectives/schedule/builder.hpp>

namespace sinew {
namespace {

// Every chunk goes both ways round, half of the way each: half as many rounds as the ring, and both directions of every
// link are busy. A second ring that differs by its first rank only would add nothing: a program runs in several
// instances at a time.
// Source: Chan, Heimlich, Purkayastha and van de Geijn, Collective communication: theory, practice, and experience,
// 2007
//         (bidirectional collectives on rings); known as such from TPU and NCCL rings.

/// From one rank to the farthest to its right and to its left.
struct Hops {
  int right = 0;
  int left = 0;
  explicit Hops(int ranks) : right(ranks / 2), left((ranks - 1) / 2) {}
};

/// Passes chunks on to the neighbour `way` (1: right, -1: left), from this rank's own on.
void pass(ProgramBuilder& b, int way, int hops) {
  for (int s = 0; s < hops; ++s) {
    b.send(b.right(way), b.out(b.left(way * s)));
    b.recv(b.left(way), b.out(b.left(way * (s + 1))));
  }
}

/// Passes sums on to the neighbour `way`, the one for the farthest rank first; `partial(chunk)` is where one waits.
template <class Partial>
void pass_sums(ProgramBuilder& b, int way, int hops, Partial&& partial) {
  if (hops == 0) return;
  Slice sum = b.in(b.right(way * hops));
  for (int s = hops - 1; s > 0; --s) {
    const int chunk = b.right(way * s);
    b.send(b.right(way), sum);
    sum = partial(chunk);
    b.recv_reduce(b.left(way), sum, b.in(chunk));
  }
  b.send(b.right(way), sum);
}

/// Sums this rank's chunk of everyone into `mine`: what comes from the left, its own, and what comes from the right.
template <class Partial>
void reduce_to_owner(ProgramBuilder& b, int ranks, Slice mine, Partial&& partial) {
  const Slice own = b.in(b.right(0));
  const Hops hops(ranks);
  if (ranks == 1) b.copy(mine, own, Sum::Complete);
  pass_sums(b, 1, hops.right, partial);
  pass_sums(b, -1, hops.left, partial);
  if (hops.right > 0) b.recv_reduce(b.left(1), mine, own, hops.left > 0 ? Sum::Partial : Sum::Complete);
  if (hops.left == 0) return;
  const Slice from_right = b.scratch_like(own);
  b.recv(b.right(1), from_right);
  b.reduce(mine, mine, from_right, Sum::Complete);
}

void gather_to_all(ProgramBuilder& b, int ranks) {
  const Hops hops(ranks);
  pass(b, 1, hops.right);
  pass(b, -1, hops.left);
}

Program all_reduce(const CollectiveDesc& desc, int rank, int ranks, bool in_place) {
  ProgramBuilder b(desc, rank, ranks, in_place, ranks);
  reduce_to_owner(b, ranks, b.out(rank), [&](int chunk) { return b.out(chunk); });
  gather_to_all(b, ranks);
  return b.build();
}

Program reduce_scatter(const CollectiveDesc& desc, int rank, int ranks, bool in_place) {
  ProgramBuilder b(desc, rank, ranks, in_place);
  reduce_to_owner(b, ranks, b.out(), [&](int chunk) { return b.scratch_like(b.in(chunk)); });
  return b.build();
}

Program all_gather(const CollectiveDesc& desc, int rank, int ranks, bool in_place) {
  ProgramBuilder b(desc, rank, ranks, in_place);
  b.copy(b.out(rank), b.in());
  gather_to_all(b, ranks);
  return b.build();
}

AlgorithmCost cost(const CollectiveDesc& desc, int ranks) {
  const double passes = desc.collective == Collective::AllReduce ? 2 : 1;
  const double rounds = passes * Hops(ranks).right;
  const double part = (ranks - 1.0) / ranks;
  const double kept = desc.collective == Collective::AllReduce ? std::min(1.0, ranks - 2.0) : ranks - 2.0;
  return {.rounds = rounds,
          .sent = passes * part,
          .received = passes * part,
          .serial = rounds / ranks,
          .reduced = reduces(desc.collective) ? part : 0,
          .scratch = reduces(desc.collective) ? std::max(0.0, kept) / ranks : 0};
}

constexpr Algorithm kBidirectionalRing[] = {
    {"bidirectional_ring", Collective::AllReduce, any_ranks, all_reduce, cost},
    {"bidirectional_ring", Collective::AllGather, any_ranks, all_gather, cost},
    {"bidirectional_ring", Collective::ReduceScatter, any_ranks, reduce_scatter, cost}};

}  // namespace

std::span<const Algorithm> bidirectional_ring_family() noexcept { return kBidirectionalRing; }

}  // namespace sinew
