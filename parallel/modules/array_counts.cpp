#include <algorithm>

#include <sinew/parallel/modules/array_counts.hpp>

namespace sinew::parallel {

ArrayCounts::ArrayCounts(std::span<const std::int64_t> lengths) {
  for (const std::int64_t length : lengths) {
    if (length > 0) ++counts_[length];
  }
}

ArrayCounts& ArrayCounts::operator+=(const ArrayCounts& more) {
  for (const auto& [length, count] : more.counts_) counts_[length] += count;
  return *this;
}

ArrayCounts& ArrayCounts::operator-=(const ArrayCounts& less) {
  for (const auto& [length, count] : less.counts_) counts_[length] -= count;
  return *this;
}

void ArrayCounts::raise_to(const ArrayCounts& other) {
  for (const auto& [length, count] : other.counts_) {
    std::int64_t& own = counts_[length];
    own = std::max(own, count);
  }
}

std::int64_t ArrayCounts::elements() const noexcept {
  std::int64_t sum = 0;
  for (const auto& [length, count] : counts_) sum += length * count;
  return sum;
}

}  // namespace sinew::parallel
