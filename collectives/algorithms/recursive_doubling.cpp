#include <algorithm>

#include <fmt/format.h>

#include <sinew/collectives/algorithms/families.hpp>
#include <sinew/collectives/builder.hpp>

namespace sinew {
namespace {

/// Partners at distance 1, 2, 4, ... exchange what they have and both add it up. Ranks beyond the largest power of two
/// give theirs to a partner before and take the result after.
/// Source: Thakur, Rabenseifner and Gropp, Optimization of collective communication operations in MPICH, 2005.
Program all_reduce(const CollectiveDesc& desc, int rank, int ranks, bool in_place) {
  ProgramBuilder b(desc, rank, ranks, in_place);
  const int core = 1 << floor_log2(ranks);
  if (rank >= core) {
    b.send(rank - core, b.in());
    b.recv(rank - core, b.out());
    return b.build();
  }
  const bool folds = rank + core < ranks;
  int left = floor_log2(ranks) + (folds ? 1 : 0);
  if (left == 0) b.copy(b.out(), b.in(), Sum::Complete);
  // Both partners read what they send until it has arrived, so a sum never goes where its operand is.
  const bool aside = left == 1 && b.same(b.in(), b.out());
  Slice spare[2];
  Slice sum = b.in();
  const auto add_from = [&](int peer, Slice mine) {
    --left;
    Slice& next = spare[left % 2];
    if (next.count == 0 && (left > 0 || aside)) next = b.scratch(0);
    sum = left > 0 || aside ? next : b.out();
    b.recv_reduce(peer, sum, mine, left > 0 ? Sum::Partial : Sum::Complete);
  };
  if (folds) add_from(rank + core, sum);
  for (int distance = 1; distance < core; distance *= 2) {
    b.send(rank ^ distance, sum);
    add_from(rank ^ distance, sum);
  }
  if (ranks > 1) b.copy(b.out(), sum);
  if (folds) b.send(rank + core, b.out());
  return b.build();
}

/// Who gives the result to a rank beyond the core keeps it as that decodes it, but others have not given it to anybody.
Availability all_reduce_ranks(const CollectiveDesc& desc, int ranks) {
  if (desc.codec == Codec::None || floor_log2(ranks) == ceil_log2(ranks)) return any_ranks(desc, ranks);
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
