#pragma once

#include <cstdint>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/placement/rows.hpp>

namespace sinew::parallel {

/// Decides which keys a query sees, by their positions in a sequence. A query sees the keys of its own document. With a
/// causal mask it sees none after itself. So a sequence of several documents, packed one after the other, acts as
/// several sequences.
class SINEW_API AttentionMask {
 public:
  /// starts: where documents begin, ascending. Positions before the first start are a document too. None: one document.
  /// Errors: InvalidArgument for starts that do not ascend, or are negative.
  explicit AttentionMask(bool causal, std::vector<std::int64_t> starts = {});

  /// The positions that the query at this position sees. The last document has no end.
  Rows seen(std::int64_t position) const noexcept;
  bool causal() const noexcept { return causal_; }
  const std::vector<std::int64_t>& starts() const noexcept { return starts_; }
  /// Counts the pairs of one of these queries and a key that it sees, in a sequence of that length.
  std::int64_t pairs(const Rows& queries, std::int64_t length) const noexcept;

 private:
  bool causal_;
  std::vector<std::int64_t> starts_;
};

}  // namespace sinew::parallel
