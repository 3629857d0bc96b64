#include "bench_case.hpp"

#include <numeric>

#include <sinew/tools/check/exact_rows.hpp>

namespace sinew::tools {
namespace {

constexpr BenchCase kCases[] = {
    {Exercise::AllReduce, "all_reduce", Collective::AllReduce, false, true, 1},
    {Exercise::AllGather, "all_gather", Collective::AllGather, true, true, 1},
    {Exercise::ReduceScatter, "reduce_scatter", Collective::ReduceScatter, true, true, 1},
    {Exercise::AllToAll, "all_to_all", Collective::AllToAll, true, true, 1},
    {Exercise::Broadcast, "broadcast", Collective::Broadcast, false, false, 1},
    {Exercise::Reduce, "reduce", Collective::Reduce, false, true, 1},
    {Exercise::Gather, "gather", Collective::Gather, true, true, 1},
    {Exercise::Scatter, "scatter", Collective::Scatter, true, true, 1},
    {Exercise::AllGatherV, "all_gatherv", Collective::AllGatherV, true, true, 1},
    {Exercise::ReduceScatterV, "reduce_scatterv", Collective::ReduceScatterV, true, true, 1},
    {Exercise::AllToAllV, "all_to_allv", Collective::AllToAllV, true, true, 1},
    {Exercise::Barrier, "barrier", Collective::Barrier, false, false, 1},
    {Exercise::SendRecv, "sendrecv", Collective::SendRecv, false, false, 2},
    {Exercise::Latency, "latency", Collective::SendRecv, false, false, 2},
    {Exercise::Bandwidth, "bandwidth", Collective::Send, false, false, 2},
};

/// Elements before part r of P.
std::uint64_t before(std::uint64_t r, std::uint64_t ranks, std::uint64_t count) {
  return count * (r * (r + 1)) / (ranks + 1);
}

std::uint64_t sum_of_first(const std::vector<std::uint64_t>& counts, int r) {
  return std::accumulate(counts.begin(), counts.begin() + r, std::uint64_t{0});
}

RankData scattered(int rank, int root, std::uint64_t all, std::uint64_t count) {
  const std::uint64_t mine = static_cast<std::uint64_t>(rank) * count;
  RankData d{0, count, {}, {{0, root, mine, count}}, 0};
  if (rank == root) d = {all, count, {{0, root, 0, all}}, d.expected, mine};
  return d;
}

RankData skewed_data(const BenchCase& what, int rank, int ranks, std::uint64_t count) {
  const std::vector<std::uint64_t> counts = skewed_counts(what, rank, ranks, count);
  const std::uint64_t all = sum_of_first(counts, ranks);
  const std::uint64_t own = counts[static_cast<std::size_t>(rank)];
  const std::uint64_t own_at = sum_of_first(counts, rank);
  if (what.exercise == Exercise::ReduceScatterV)
    return {all, own, {{0, rank, 0, all}}, {{0, check::kCombined, own_at, own}}, own_at};
  const bool to_all = what.exercise == Exercise::AllGatherV;
  RankData d{to_all ? own : all, all, {{0, rank, 0, to_all ? own : all}}, {}, to_all ? own_at : 0};
  for (int r = 0; r < ranks; ++r) {
    // Where in the row of rank r its part for this one begins.
    const std::uint64_t first = to_all ? 0 : sum_of_first(skewed_counts(what, r, ranks, count), rank);
    d.expected.push_back({sum_of_first(counts, r), r, first, counts[static_cast<std::size_t>(r)]});
  }
  return d;
}

}  // namespace

std::vector<std::uint64_t> skewed_counts(const BenchCase& what, int rank, int ranks, std::uint64_t count) {
  const auto p = static_cast<std::uint64_t>(ranks);
  const std::uint64_t turned = what.exercise == Exercise::AllToAllV ? static_cast<std::uint64_t>(rank) : 0;
  std::vector<std::uint64_t> counts;
  for (std::uint64_t r = 0; r < p; ++r) {
    const std::uint64_t part = (r + turned) % p;
    counts.push_back(before(part + 1, p, count) - before(part, p, count));
  }
  return counts;
}

std::span<const BenchCase> all_cases() noexcept { return kCases; }

const BenchCase* find_case(std::string_view name) noexcept {
  for (const BenchCase& c : kCases) {
    if (c.name == name) return &c;
  }
  const auto collective = collective_from_name(name);  // allreduce, or all_to_all_v, as the library calls it
  for (const BenchCase& c : kCases) {
    if (collective && !is_message(*collective) && c.collective == *collective) return &c;
  }
  return nullptr;
}

RankData data_of(const BenchCase& what, int rank, int ranks, std::uint64_t count, int root) {
  const auto all = static_cast<std::uint64_t>(ranks) * count;
  const auto mine = static_cast<std::uint64_t>(rank) * count;
  RankData d;
  switch (what.exercise) {
    case Exercise::AllReduce: return {count, count, {{0, rank, 0, count}}, {{0, check::kCombined, 0, count}}, 0};
    case Exercise::ReduceScatter: return {all, count, {{0, rank, 0, all}}, {{0, check::kCombined, mine, count}}, mine};
    case Exercise::AllGather:
      d = {count, all, {{0, rank, 0, count}}, {}, mine};
      for (int r = 0; r < ranks; ++r) d.expected.push_back({static_cast<std::uint64_t>(r) * count, r, 0, count});
      return d;
    case Exercise::AllToAll:
      d = {all, all, {{0, rank, 0, all}}, {}, 0};
      for (int r = 0; r < ranks; ++r) d.expected.push_back({static_cast<std::uint64_t>(r) * count, r, mine, count});
      return d;
    case Exercise::Reduce:
      d = {count, 0, {{0, rank, 0, count}}, {}, 0};
      if (rank == root) d = {count, count, d.given, {{0, check::kCombined, 0, count}}, 0};
      return d;
    case Exercise::Gather:
      if (rank != root) return {count, 0, {{0, rank, 0, count}}, {}, 0};
      return data_of(*find_case("all_gather"), rank, ranks, count);
    case Exercise::Scatter: return scattered(rank, root, all, count);
    case Exercise::AllGatherV:
    case Exercise::ReduceScatterV:
    case Exercise::AllToAllV: return skewed_data(what, rank, ranks, count);
    case Exercise::Broadcast:
      d = {0, count, {}, {{0, root, 0, count}}, 0};
      if (rank == root) d.given = d.expected;
      return d;
    case Exercise::SendRecv:
      return {count, count, {{0, rank, 0, count}}, {{0, (rank + ranks - 1) % ranks, 0, count}}, 0};
    case Exercise::Latency:
      if (rank < 2) d = {count, count, {{0, rank, 0, count}}, {{0, 1 - rank, 0, count}}, 0};
      return d;
    case Exercise::Bandwidth:
      if (rank == 0) d = {count, 0, {{0, 0, 0, count}}, {}, 0};
      if (rank == 1) d = {0, count, {}, {{0, 0, 0, count}}, 0};
      return d;
    case Exercise::Barrier: return d;
  }
  return d;
}

std::uint64_t unit_bytes(const BenchCase& what, DType dtype, int ranks) noexcept {
  return size_of(dtype) * (what.blocks ? static_cast<std::uint64_t>(ranks) : 1);
}

}  // namespace sinew::tools
