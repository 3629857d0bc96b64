#pragma once

#include <span>

#include <sinew/core/base/export.hpp>
#include <sinew/core/call/cost.hpp>

namespace sinew {

/// The least that messages of one size have taken.
struct MeasuredSize {
  double bytes = 0;
  Seconds fastest = 0;
};

/// What a larger message is likely to take: what all have in common once, the rest of the largest one as often as it is
/// longer. Shape: `measured` ascends in bytes and has the shortest message.
SINEW_API Seconds likely_seconds(std::span<const MeasuredSize> measured, double bytes);

/// The shortest message is the latency, each other one a knot. The largest ones tell a rate only where they took longer
/// than that by more than noise; where none of 64 KiB or more did, as over a long way, the knots of `assumed` beyond
/// those that there are are kept.
SINEW_API CostCurve curve_of(std::span<const MeasuredSize> measured, const CostCurve& assumed);

}  // namespace sinew
