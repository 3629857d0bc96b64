#pragma once

#include <cstdint>
#include <vector>

namespace sinew::parallel {

/// Bytes that any of some ranks may send.
struct Demand {
  std::int64_t bytes = 0;
  std::vector<int> eligible;  ///< ranks, at least one
};

/// The least bytes by which a demand is divided, except for its last range. A multiple of each dtype's element.
inline constexpr std::int64_t kLeastRangeBytes = 4096;  // not a page

/// Divides demands among their eligible ranks so that the largest loads are as small as possible.
/// loads: by rank, the bytes that the rank sends anyway. On return, with the shares of the demands.
/// Returns for each demand the share of each eligible rank in bytes, in the order of `eligible`. One share of each
/// demand has the bytes that are left over. All others are multiples of kLeastRangeBytes.
std::vector<std::vector<std::int64_t>> balanced_shares(const std::vector<Demand>& demands,
                                                       std::vector<std::int64_t>& loads);

}  // namespace sinew::parallel
