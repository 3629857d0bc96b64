#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <sinew/core/base/export.hpp>

namespace sinew::parallel {

/// The costs of exchanges. Costs are compared member by member; the first difference decides.
struct Cost {
  std::int32_t impossible = 0;  ///< tensors that are needed in placements that they cannot have
  std::int64_t bytes = 0;
  std::int32_t exchanges = 0;
  std::int32_t splits = 0;
  std::int32_t changes = 0;  ///< computes whose placements differ from the given graph

  friend std::strong_ordering operator<=>(const Cost&, const Cost&) = default;
  Cost& operator+=(const Cost& other) noexcept {
    impossible += other.impossible, bytes += other.bytes, exchanges += other.exchanges, splits += other.splits;
    changes += other.changes;
    return *this;
  }
};

/// A cost that depends on some of the choices.
/// Shape: choices ascend. The table has an entry for every combination of their values; those of the last choice are
///        next to each other.
struct Factor {
  std::vector<std::size_t> choices;
  std::vector<Cost> costs;
};

constexpr std::size_t kLargestTable = 1 << 14;

/// The values of all choices whose costs add up to the least. Choice i has the values 0..counts[i]-1.
/// Choices that depend on too many others for tables of kLargestTable entries may stay 0. The result costs at most as
/// much as all zeros.
/// Cost:   choices are eliminated one after the other, those with the fewest dependencies first.
/// Source: variable elimination (bucket elimination), Dechter, Artificial Intelligence 113, 1999.
SINEW_API std::vector<std::size_t> least_cost(const std::vector<std::size_t>& counts, std::vector<Factor> factors);

}  // namespace sinew::parallel
