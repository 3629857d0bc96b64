#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <span>
#include <utility>

#include <sinew/core/base/export.hpp>

namespace sinew::parallel {

/// The numbers of arrays of each length that there are at a time. Modules plan their memory with it, because an
/// ArrayPool holds as many arrays of a length as there were at once, whatever it holds of other lengths.
/// Units: elements
class SINEW_API ArrayCounts {
 public:
  ArrayCounts() = default;
  /// One array of each length. Arrays without elements are left out.
  ArrayCounts(std::initializer_list<std::int64_t> lengths) : ArrayCounts(std::span(lengths.begin(), lengths.size())) {}
  explicit ArrayCounts(std::span<const std::int64_t> lengths);
  /// One array of `rows` rows for each number of elements that a row may have. The number of rows varies from pass to
  /// pass (ArrayPool::take).
  static ArrayCounts varying(std::int64_t rows, std::initializer_list<std::int64_t> columns);

  ArrayCounts& operator+=(const ArrayCounts& more);
  /// less: arrays that were added before.
  ArrayCounts& operator-=(const ArrayCounts& less);
  friend ArrayCounts operator+(ArrayCounts a, const ArrayCounts& b) { return a += b; }
  friend ArrayCounts operator-(ArrayCounts a, const ArrayCounts& b) { return a -= b; }
  /// There are at least as many of each length afterwards as in `other`.
  void raise_to(const ArrayCounts& other);

  /// The elements of all arrays together.
  std::int64_t elements() const noexcept;

 private:
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> counts_;  // by elements of a varying row, and by length
};

/// As many arrays of each length as a or b has, whichever has more.
inline ArrayCounts most_of(ArrayCounts a, const ArrayCounts& b) {
  a.raise_to(b);
  return a;
}

}  // namespace sinew::parallel
