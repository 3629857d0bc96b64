#pragma once

#include <cstdint>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/placement/rows.hpp>

namespace sinew::parallel {

/// Which keys a query sees, by positions in a sequence: those of its own document, under a causal mask none after
/// itself. A sequence of several documents, packed one behind the other, is as several sequences to attention.
class SINEW_API AttentionMask {
 public:
  /// starts: where documents begin, ascending; what is before the first belongs to one, too. None: one document.
  /// Errors: InvalidArgument for starts that do not ascend, or are negative.
  explicit AttentionMask(bool causal, std::vector<std::int64_t> starts = {});

  /// Positions that the query of this one sees; the last document has no end.
  Rows seen(std::int64_t position) const noexcept;
  bool causal() const noexcept { return causal_; }
  /// Pairs of a query among these positions and a key that it sees, in a sequence of so many.
  std::int64_t pairs(const Rows& queries, std::int64_t length) const noexcept;

 private:
  bool causal_;
  std::vector<std::int64_t> starts_;
};

}  // namespace sinew::parallel
