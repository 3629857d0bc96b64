#include <algorithm>

#include <sinew/core/call/cost.hpp>

namespace sinew {
namespace {

/// Time to move that many bytes: linear between knots and before the first, at the last one's rate beyond it.
Seconds moving(const InlineVector<Knot, 8>& knots, double bytes) noexcept {
  Knot left{0, 0};
  Seconds at_left = 0;
  for (const Knot& right : knots) {
    const Seconds at_right = std::max(at_left, right.bytes / right.bytes_per_s);
    if (bytes < right.bytes) return at_left + (bytes - left.bytes) / (right.bytes - left.bytes) * (at_right - at_left);
    left = right;
    at_left = at_right;
  }
  return at_left + (bytes - left.bytes) / left.bytes_per_s;
}

}  // namespace

Seconds CostCurve::seconds(double bytes) const noexcept {
  const double fixed = overhead_s + latency_s;
  if (knots.empty() || !(bytes > 0)) return fixed;
  return fixed + moving(knots, bytes);
}

}  // namespace sinew
