#include <algorithm>

#include <sinew/collectives/selection/measured_curve.hpp>

namespace sinew {
namespace {

/// No difference of two times is known to be less.
constexpr Seconds kClockTick = 1e-9;
/// Of the latency: so much do two measurements of the same differ.
constexpr double kNoise = 0.1;
constexpr double kTellsARate = 64 << 10;  // bytes

}  // namespace

Seconds likely_seconds(std::span<const MeasuredSize> measured, double bytes) {
  const MeasuredSize& largest = measured.back();
  const Seconds common = measured.front().fastest;
  if (measured.size() == 1) return common;
  return common + std::max(largest.fastest - common, 0.0) * bytes / largest.bytes;
}

CostCurve curve_of(std::span<const MeasuredSize> measured, Seconds one_more, const CostCurve& assumed) {
  CostCurve curve;
  const Seconds shortest = measured.front().fastest;
  curve.overhead_s = std::clamp(one_more, 0.0, shortest);
  curve.latency_s = shortest - curve.overhead_s;
  const auto tells = [&](const MeasuredSize& m) { return m.fastest - shortest > kNoise * shortest; };
  while (measured.size() > 1 && !tells(measured.back())) measured = measured.first(measured.size() - 1);
  for (const MeasuredSize& m : measured.subspan(1))
    curve.knots.push_back({m.bytes, m.bytes / std::max(m.fastest - shortest, kClockTick)});
  if (measured.back().bytes >= kTellsARate) return curve;
  for (const Knot& k : assumed.knots) {
    if (k.bytes > measured.back().bytes && !curve.knots.full()) curve.knots.push_back(k);
  }
  return curve;
}

}  // namespace sinew
