#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <sinew/core/base/export.hpp>

namespace sinew::parallel {

/// What exchanges cost: the first difference decides.
struct Cost {
  std::int32_t impossible = 0;  ///< tensors asked for in placements in which they cannot be had
  std::int64_t bytes = 0;
  std::int32_t exchanges = 0;
  std::int32_t splits = 0;
  std::int32_t changes = 0;  ///< computes that go another way than they did

  friend std::strong_ordering operator<=>(const Cost&, const Cost&) = default;
  Cost& operator+=(const Cost& other) noexcept {
    impossible += other.impossible, bytes += other.bytes, exchanges += other.exchanges, splits += other.splits;
    changes += other.changes;
    return *this;
  }
};

/// A cost that depends on some of the choices.
/// Shape: choices ascend; the table has an entry for all of their values, those of the last choice next to each other.
struct Factor {
  std::vector<std::size_t> choices;
  std::vector<Cost> costs;
};

constexpr std::size_t kLargestTable = 1 << 14;

/// The values of all choices whose costs add up to the least. Choice i has values 0..counts[i]-1.
/// What is too entangled for tables of kLargestTable entries stays 0 here and there: the result costs no more than that
/// of all zeros.
/// Cost:   choices are eliminated one after the other, the least entangled first.
/// Source: variable elimination (bucket elimination), Dechter, Artificial Intelligence 113, 1999.
SINEW_API std::vector<std::size_t> least_cost(const std::vector<std::size_t>& counts, std::vector<Factor> factors);

}  // namespace sinew::parallel
