#include <algorithm>

#include <sinew/parallel/modules/array_counts.hpp>

namespace sinew::parallel {

ArrayCounts::ArrayCounts(std::span<const std::int64_t> lengths) {
  for (const std::int64_t length : lengths) {
    if (length > 0) ++counts_[{0, length}];
  }
}

ArrayCounts ArrayCounts::varying(std::int64_t rows, std::initializer_list<std::int64_t> columns) {
  ArrayCounts arrays;
  for (const std::int64_t each : columns) {
    if (rows * each > 0) ++arrays.counts_[{each, rows * each}];
  }
  return arrays;
}

ArrayCounts& ArrayCounts::operator+=(const ArrayCounts& more) {
  for (const auto& [key, count] : more.counts_) counts_[key] += count;
  return *this;
}

ArrayCounts& ArrayCounts::operator-=(const ArrayCounts& less) {
  for (const auto& [key, count] : less.counts_) counts_[key] -= count;
  return *this;
}

void ArrayCounts::raise_to(const ArrayCounts& other) {
  for (const auto& [key, count] : other.counts_) {
    std::int64_t& own = counts_[key];
    own = std::max(own, count);
  }
}

std::int64_t ArrayCounts::elements() const noexcept {
  std::int64_t sum = 0;
  for (const auto& [key, count] : counts_) sum += key.second * count;
  return sum;
}

}  // namespace sinew::parallel
