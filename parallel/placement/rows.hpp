#pragma once

#include <cstdint>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/placement/placement.hpp>

namespace sinew::parallel {

/// Rows of one part, from the first of those that are cut.
struct Rows {
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::int64_t count() const noexcept { return last - first; }
  friend bool operator==(const Rows&, const Rows&) = default;
};

/// What part `index` of `parts` has of `extent` rows, by a shard that is valid.
SINEW_API Rows rows_of(const Shard& shard, int index, int parts, std::int64_t extent) noexcept;

}  // namespace sinew::parallel
