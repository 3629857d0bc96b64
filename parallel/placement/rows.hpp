#pragma once

#include <cstdint>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/placement/placement.hpp>

namespace sinew::parallel {

/// The rows [first, last) of a part.
struct Rows {
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::int64_t count() const noexcept { return last - first; }
  friend bool operator==(const Rows&, const Rows&) = default;
};

/// The rows of part `index` of `parts`, for a valid shard of `extent` rows.
SINEW_API Rows rows_of(const Shard& shard, int index, int parts, std::int64_t extent) noexcept;

}  // namespace sinew::parallel
