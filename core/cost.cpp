#include <algorithm>

#include <sinew/core/cost.hpp>

namespace sinew {
namespace {

/// Linear between knots, constant before the first and after the last.
double bandwidth_at(const InlineVector<Knot, 8>& knots, double bytes) noexcept {
  if (bytes <= knots[0].bytes) return knots[0].bytes_per_s;
  for (std::size_t i = 1; i < knots.size(); ++i) {
    const Knot& left = knots[i - 1];
    const Knot& right = knots[i];
    if (bytes < right.bytes) {
      const double share = (bytes - left.bytes) / (right.bytes - left.bytes);
      return left.bytes_per_s + share * (right.bytes_per_s - left.bytes_per_s);
    }
  }
  return knots.back().bytes_per_s;
}

}  // namespace

Seconds CostCurve::seconds(double bytes) const noexcept {
  const double fixed = overhead_s + latency_s;
  if (knots.empty() || !(bytes > 0)) return fixed;
  double transfer = bytes / bandwidth_at(knots, bytes);
  // n / bandwidth(n) only rises or only falls between two knots, so what a smaller message takes at most is taken at
  // one.
  for (const Knot& k : knots) {
    if (k.bytes <= bytes) transfer = std::max(transfer, k.bytes / k.bytes_per_s);
  }
  return fixed + transfer;
}

}  // namespace sinew
