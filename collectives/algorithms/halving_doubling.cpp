#include <algorithm>

#include <sinew/collectives/algorithms/families.hpp>
#include <sinew/collectives/algorithms/folded_core.hpp>
#include <sinew/collectives/schedule/builder.hpp>

namespace sinew {
namespace {

// Source: Rabenseifner, Optimization of collective reduction operations, 2004; Thakur, Rabenseifner and Gropp,
//         Optimization of collective communication operations in MPICH, 2005.
// Ranks beyond a power of two are folded in: 3-2 elimination (Rabenseifner and Traeff, 2004) moves less, but needs
// rounds of other shapes for each remainder, and `bruck` moves less still on any number of ranks.
// Where chunks are the author's choice, neighbours exchange first, which is the canonical order of sums: the half that
// is largest goes the shortest way.

/// Leaves the sums of this place's chunks in `last`; on the way they wait in `sums`.
void halve(ProgramBuilder& b, const FoldedCore& core, const PlacedChunks& in, const PlacedChunks& sums,
           const PlacedChunks& last) {
  PlacedChunks have = in;
  const int half = core.size() / 2;
  if (core.is_paired()) {
    for (const Places p : {core.far(half), core.near(half)}) b.recv_reduce(core.partner(), sums(p), in(p));
    have = sums;
  }
  for (int d = half; d > 0; d /= 2) {
    const Slice to = d == 1 ? last(core.near(d)) : sums(core.near(d));
    b.send(core.peer(d), have(core.far(d)));
    b.recv_reduce(core.peer(d), to, have(core.near(d)), d == 1 ? Sum::Complete : Sum::Partial);
    have = sums;
  }
}

/// What a rank that takes no part gives to its partner: first what that passes on first.
void fold_in(ProgramBuilder& b, const FoldedCore& core, const PlacedChunks& in) {
  const int half = core.size() / 2;
  for (const Places p : {core.far(half), core.near(half)}) b.send(core.partner(), in(p));
}

void double_up(ProgramBuilder& b, const FoldedCore& core, const PlacedChunks& all) {
  for (int d = 1; d < core.size(); d *= 2) {
    b.send(core.peer(d), all(core.near(d)));
    b.recv(core.peer(d), all(core.far(d)));
  }
  if (!core.is_paired()) return;
  const int half = core.size() / 2;
  for (const Places p : {core.near(half), core.far(half)}) b.send(core.partner(), all(p));
}

void fold_out(ProgramBuilder& b, const FoldedCore& core, const PlacedChunks& all) {
  const int half = core.size() / 2;
  for (const Places p : {core.near(half), core.far(half)}) b.recv(core.partner(), all(p));
}

/// Memory for sums that may not wait in the output.
PlacedChunks scratch_sums(ProgramBuilder& b, const FoldedCore& core, const PlacedChunks& in) {
  const Places kept = core.is_paired() ? Places{0, core.size()} : core.near(core.size() / 2);
  return in.on(b.scratch_like(in(kept)), kept.first);
}

Program all_reduce(const CollectiveDesc& desc, int rank, int ranks, bool in_place) {
  const FoldedCore core(rank, ranks, 0, true);
  ProgramBuilder b(desc, rank, ranks, in_place, core.size());
  b.keep_whole();
  const PlacedChunks in{&core, false, b.in(0, core.size()), 0};
  const PlacedChunks out = in.on(b.out(0, core.size()), 0);
  if (ranks == 1) {
    b.copy(b.out(), b.in(), Sum::Complete);
  } else if (core.takes_part()) {
    halve(b, core, in, out, out);
    double_up(b, core, out);
  } else {
    fold_in(b, core, in);
    fold_out(b, core, out);
  }
  return b.build();
}

Program reduce_scatter(const CollectiveDesc& desc, int rank, int ranks, bool in_place) {
  const FoldedCore core(rank, ranks, 0);
  ProgramBuilder b(desc, rank, ranks, in_place);
  b.keep_whole();
  const PlacedChunks in{&core, true, b.in(0, ranks), 0};
  if (ranks == 1) {
    b.copy(b.out(), b.in(), Sum::Complete);
  } else if (!core.takes_part()) {
    fold_in(b, core, in);
    b.recv(core.partner(), b.out());
  } else if (core.is_paired()) {
    const PlacedChunks sums = scratch_sums(b, core, in);
    halve(b, core, in, sums, sums);
    const Slice both = sums({core.place(), 1});
    b.send(core.partner(), both.part(1));
    b.copy(b.out(), both.part(0));
  } else {
    const PlacedChunks sums = core.size() > 2 ? scratch_sums(b, core, in) : in;
    halve(b, core, in, sums, in.on(b.out(), core.place()));
  }
  return b.build();
}

Program all_gather(const CollectiveDesc& desc, int rank, int ranks, bool in_place) {
  const FoldedCore core(rank, ranks, 0);
  ProgramBuilder b(desc, rank, ranks, in_place);
  b.keep_whole();
  const PlacedChunks out{&core, true, b.out(0, ranks), 0};
  if (core.takes_part()) {
    b.copy(b.out(rank), b.in());
    if (core.is_paired()) b.recv(core.partner(), b.out(core.partner()));
    double_up(b, core, out);
  } else {
    b.send(core.partner(), b.in());
    fold_out(b, core, out);
  }
  return b.build();
}

/// Sums go to the root the way that the halves went, each block to where it came from.
void gather_sums(ProgramBuilder& b, const FoldedCore& core, int root, const PlacedChunks& sums) {
  const int away = core.place() ^ core.place_of(root);
  for (int d = 1; d < core.size(); d *= 2) {
    if ((away & d) != 0) {
      b.send(core.peer(d), sums(core.near(d)));
      return;
    }
    b.recv(core.peer(d), sums(core.far(d)));
  }
}

Program reduce(const CollectiveDesc& desc, int rank, int ranks, bool in_place) {
  const FoldedCore core(rank, ranks, desc.root, true);
  ProgramBuilder b(desc, rank, ranks, in_place, core.size());
  b.keep_whole();
  const PlacedChunks in{&core, false, b.in(0, core.size()), 0};
  if (ranks == 1) {
    b.copy(b.out(), b.in(), Sum::Complete);
  } else if (core.takes_part()) {
    const PlacedChunks sums = rank == desc.root ? in.on(b.out(0, core.size()), 0) : scratch_sums(b, core, in);
    halve(b, core, in, sums, sums);
    gather_sums(b, core, desc.root, sums);
  } else {
    fold_in(b, core, in);
  }
  return b.build();
}

/// Chunks of the blocks of 1, 2, 4, ... places that place 0 is in, where the first `extra` places have two each.
int blocks_of_first(int size, int extra) {
  int chunks = 0;
  for (int d = 1; d < size; d *= 2) chunks += d + std::min(d, extra);
  return chunks;
}

AlgorithmCost all_reduce_cost(const CollectiveDesc&, int ranks) {
  const int size = 1 << floor_log2(ranks);
  const double part = (size - 1.0) / size;
  const double folds = ranks > size ? 1 : 0;
  const double moved = 2 * part + folds;
  return {.rounds = 2 * floor_log2(ranks) + 2 * folds,
          .sent = moved,
          .received = moved,
          .serial = moved,
          .reduced = part + folds,
          .whole = true};
}

AlgorithmCost reduce_scatter_cost(const CollectiveDesc&, int ranks) {
  const int size = 1 << floor_log2(ranks);
  const int extra = ranks - size;
  const double all = ranks;
  if (extra == 0) {
    const double part = (all - 1) / all;
    return {.rounds = static_cast<double>(floor_log2(ranks)),
            .sent = part,
            .received = part,
            .serial = part,
            .reduced = part,
            .scratch = ranks > 2 ? 0.5 : 0.0,
            .whole = true};
  }
  const int halving = blocks_of_first(size, extra);
  const int folded = size / 2 + std::min(size / 2, extra);
  return {.rounds = floor_log2(ranks) + 2.0,
          .sent = 1,
          .received = 1 + halving / all,
          .serial = (folded + halving + 1) / all,
          .reduced = 1 + halving / all,
          .scratch = 1,
          .whole = true};
}

/// Where more than half of the places have two ranks, the longest chain goes from one folded in to one folded out.
AlgorithmCost all_gather_cost(const CollectiveDesc&, int ranks) {
  const int size = 1 << floor_log2(ranks);
  const int extra = ranks - size;
  const double all = ranks;
  if (extra == 0) {
    const double part = (all - 1) / all;
    return {.rounds = static_cast<double>(floor_log2(ranks)),
            .sent = part,
            .received = part,
            .serial = part,
            .whole = true};
  }
  const bool most_paired = extra > size / 2;
  const int doubling = blocks_of_first(size, extra);
  const int serial = most_paired ? 3 * size - 1 : std::max(size - 1 + size / 2, 1 + doubling);
  return {.rounds = floor_log2(ranks) + (most_paired ? 2.0 : 1.0),
          .sent = 1 + doubling / all,
          .received = 1,
          .serial = serial / all,
          .whole = true};
}

/// What the busiest rank with a partner receives beside its half of the halving.
double reduce_received(const FoldedCore& core, int extra, double part) {
  if (extra == 0 || core.is_paired()) return part;
  int most = 0;
  for (int place = 0; place < core.size(); ++place) {
    if (!core.is_paired(place)) continue;
    const int away = place ^ core.place();
    most = std::max(most, (away & -away) - 1);
  }
  return most / static_cast<double>(core.size());
}

AlgorithmCost reduce_cost(const CollectiveDesc& desc, int ranks) {
  if (ranks == 1) return {};
  const FoldedCore core(desc.root, ranks, desc.root, true);
  const int size = core.size();
  const double part = (size - 1.0) / size;
  const double folds = ranks > size ? 1 : 0;
  return {.rounds = 2 * floor_log2(ranks) + folds,
          .sent = part + 0.5,
          .received = part + folds + reduce_received(core, ranks - size, part),
          .serial = 2 * part + folds / 2,
          .reduced = part + folds,
          .scratch = ranks == size ? 0.5 : 1.0,
          .whole = true};
}

constexpr Algorithm kHalvingDoubling[] = {
    {"halving_doubling", Collective::AllReduce, folded_in_order, all_reduce, all_reduce_cost},
    {"halving_doubling", Collective::AllGather, parts_in_runs, all_gather, all_gather_cost},
    {"halving_doubling", Collective::ReduceScatter, parts_in_runs, reduce_scatter, reduce_scatter_cost},
    {"halving_doubling", Collective::Reduce, folded_in_order, reduce, reduce_cost}};

}  // namespace

std::span<const Algorithm> halving_doubling_family() noexcept { return kHalvingDoubling; }

}  // namespace sinew
