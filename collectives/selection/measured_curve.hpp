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

/// Returns the curve of a link. The time of the shortest message is the overhead and the latency. Each other message is
/// a knot. `one_more` is what another short message adds to the time of several at once, and it is the overhead.
/// The largest messages tell a rate only where they took longer than the shortest one by more than noise. Over a long
/// way it may be that none of 64 KiB or more did. Then the knots of `assumed` beyond the measured sizes are kept.
SINEW_API CostCurve curve_of(std::span<const MeasuredSize> measured, Seconds one_more, const CostCurve& assumed);

}  // namespace sinew
