#include "bench_case.hpp"

#include "check/exact_rows.hpp"

namespace sinew::tools {
namespace {

constexpr BenchCase kCases[] = {
    {Exercise::AllReduce, "all_reduce", Collective::AllReduce, false, true, 1},
    {Exercise::AllGather, "all_gather", Collective::AllGather, true, true, 1},
    {Exercise::ReduceScatter, "reduce_scatter", Collective::ReduceScatter, true, true, 1},
    {Exercise::AllToAll, "all_to_all", Collective::AllToAll, true, true, 1},
    {Exercise::Broadcast, "broadcast", Collective::Broadcast, false, false, 1},
    {Exercise::Barrier, "barrier", Collective::Barrier, false, false, 1},
    {Exercise::SendRecv, "sendrecv", Collective::SendRecv, false, false, 2},
    {Exercise::Latency, "latency", Collective::SendRecv, false, false, 2},
    {Exercise::Bandwidth, "bandwidth", Collective::Send, false, false, 2},
};

}  // namespace

std::span<const BenchCase> all_cases() noexcept { return kCases; }

const BenchCase* find_case(std::string_view name) noexcept {
  for (const BenchCase& c : kCases) {
    if (c.name == name) return &c;
  }
  return nullptr;
}

double bus_factor(const BenchCase& what, int ranks) noexcept {
  const double others = static_cast<double>(ranks - 1) / ranks;
  switch (what.exercise) {
    case Exercise::AllReduce: return 2 * others;
    case Exercise::AllGather:
    case Exercise::ReduceScatter:
    case Exercise::AllToAll: return others;
    case Exercise::Broadcast:
    case Exercise::Barrier:
    case Exercise::SendRecv:
    case Exercise::Latency:
    case Exercise::Bandwidth: return 1;
  }
  return 1;
}

RankData data_of(const BenchCase& what, int rank, int ranks, std::uint64_t count) {
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
    case Exercise::Broadcast:
      d = {0, count, {}, {{0, 0, 0, count}}, 0};
      if (rank == 0) d.given = d.expected;
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
