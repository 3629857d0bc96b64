#include <algorithm>

#include <fmt/format.h>

#include <sinew/collectives/algorithms/families.hpp>
#include <sinew/collectives/algorithms/folded_core.hpp>
#include <sinew/collectives/schedule/builder.hpp>

namespace sinew {
namespace {

/// Partners at distance 1, 2, 4, ... exchange what they have and both add it up. Ranks beyond the largest power of two
/// give theirs to a neighbour before and take the result after.
/// Source: Thakur, Rabenseifner and Gropp, Optimization of collective communication operations in MPICH, 2005.
Program all_reduce(const CollectiveDesc& desc, int rank, int ranks, bool in_place) {
  ProgramBuilder b(desc, rank, ranks, in_place);
  const FoldedCore core(rank, ranks, 0);
  if (!core.takes_part()) {
    b.send(core.partner(), b.in());
    b.recv(core.partner(), b.out());
    return b.build();
  }
  const bool folds = core.is_paired();
  int left = floor_log2(ranks) + (folds ? 1 : 0);
  if (left == 0) b.copy(b.out(), b.in(), Sum::Complete);
  // Both partners read what they send until it has arrived, so a sum never goes where its operand is.
  const bool in_scratch = left == 1 && b.same(b.in(), b.out());
  Slice spare[2];
  Slice sum = b.in();
  const auto add_from = [&](int peer, Slice mine) {
    --left;
    Slice& next = spare[left % 2];
    if (next.count == 0 && (left > 0 || in_scratch)) next = b.scratch(0);
    sum = left > 0 || in_scratch ? next : b.out();
    b.recv_reduce(peer, sum, mine, left > 0 ? Sum::Partial : Sum::Complete);
  };
  if (folds) add_from(core.partner(), sum);
  for (int distance = 1; distance < core.size(); distance *= 2) {
    b.send(core.peer(distance), sum);
    add_from(core.peer(distance), sum);
  }
  if (ranks > 1) b.copy(b.out(), sum);
  if (folds) b.send(core.partner(), b.out());
  return b.build();
}

/// Who gives the result to a rank beyond the core keeps it as that decodes it, but others have not given it to anybody.
Availability all_reduce_ranks(const CollectiveDesc& desc, int ranks) {
  if (desc.codec == Codec::None || is_power_of_two(ranks)) return folded_in_order(desc, ranks);
  return Availability::no(fmt::format(
      "would leave other bits on some ranks when coded: that needs a power of two of ranks, not {}", ranks));
}

/// Partners exchange all the chunks they have: blocks of 1, 2, 4, ...
Program all_gather(const CollectiveDesc& desc, int rank, int ranks, bool in_place) {
  ProgramBuilder b(desc, rank, ranks, in_place);
  b.keep_whole();
  b.copy(b.out(rank), b.in());
  for (int count = 1; count < ranks; count *= 2) {
    const int peer = rank ^ count;
    b.send(peer, count == 1 ? b.in() : b.out(rank / count * count, count));
    b.recv(peer, b.out(peer / count * count, count));
  }
  return b.build();
}

AlgorithmCost all_reduce_cost(const CollectiveDesc&, int ranks) {
  const double rounds = floor_log2(ranks);
  const double folds = floor_log2(ranks) == ceil_log2(ranks) ? 0 : 1;
  const double exchanged = rounds + folds;
  return {.rounds = exchanged + folds,
          .sent = exchanged,
          .received = exchanged,
          .serial = exchanged + folds,
          .reduced = exchanged,
          .scratch = std::min(2.0, exchanged)};
}

AlgorithmCost all_gather_cost(const CollectiveDesc&, int ranks) {
  const double part = (ranks - 1.0) / ranks;
  return {
      .rounds = static_cast<double>(floor_log2(ranks)), .sent = part, .received = part, .serial = part, .whole = true};
}

constexpr Algorithm kRecursiveDoubling[] = {
    {"recursive_doubling", Collective::AllReduce, all_reduce_ranks, all_reduce, all_reduce_cost},
    {"recursive_doubling", Collective::AllGather, power_of_two_ranks, all_gather, all_gather_cost}};

}  // namespace

std::span<const Algorithm> recursive_doubling_family() noexcept { return kRecursiveDoubling; }

}  // namespace sinew
