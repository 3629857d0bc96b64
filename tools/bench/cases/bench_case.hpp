#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/core/call/collective.hpp>

namespace sinew::tools {

enum class Exercise : std::uint8_t {
  AllReduce,
  AllGather,
  ReduceScatter,
  AllToAll,
  Broadcast,
  Barrier,
  Reduce,
  Gather,
  Scatter,
  AllGatherV,
  ReduceScatterV,
  AllToAllV,
  SendRecv,   ///< every rank to its right, from its left
  Latency,    ///< rank 0 to rank 1 and back: half of the round trip
  Bandwidth,  ///< rank 0 to rank 1, all messages of a batch in flight
};

/// One thing that sinew-bench measures.
struct BenchCase {
  Exercise exercise;
  std::string_view name;
  Collective collective;
  bool blocks;  ///< buffers are made of one block per rank, so sizes are whole elements times ranks
  bool may_be_in_place;
  int least_ranks;
};

std::span<const BenchCase> all_cases() noexcept;
const BenchCase* find_case(std::string_view name) noexcept;

/// A run of elements of a buffer, with the rank whose data it holds. `source`: a rank, or check::kCombined for the
/// combination of all ranks. The data are the elements [first, first + count) of that rank's endless row
/// (check/exact_rows.hpp).
struct Segment {
  std::uint64_t at = 0;
  int source = 0;
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};

/// What one rank sends, and what it must find afterwards.
/// Units: elements.
struct RankData {
  std::uint64_t in_elements = 0;
  std::uint64_t out_elements = 0;
  std::vector<Segment> given;     ///< of the input; of a broadcast, of the output of the root
  std::vector<Segment> expected;  ///< of the output
  std::uint64_t in_place_at = 0;  ///< in place: where the smaller buffer lies in the larger
};

/// `count`: number of elements, as CollectiveDesc counts them; in point-to-point cases the elements of a message.
/// `root`: for collectives that have one.
RankData data_of(const BenchCase& what, int rank, int ranks, std::uint64_t count, int root = 0);

/// The parts of the v-forms grow with the rank. Part r of P has 2 (r + 1) / (P + 1) times `count` elements, rounded so
/// that all parts together have ranks * count. The last part is about twice the mean. In an all_to_allv rank i sends
/// rank j part (i + j) % P, and receives as many from rank j.
/// Units: elements of each rank's part, or of each peer's part.
std::vector<std::uint64_t> skewed_counts(const BenchCase& what, int rank, int ranks, std::uint64_t count);

/// Bytes measured for one `count`, and the least above 0.
std::uint64_t unit_bytes(const BenchCase& what, DType dtype, int ranks) noexcept;

}  // namespace sinew::tools
