#pragma once

#include <cstdint>

namespace sinew::parallel {

/// exp(dt[d] * a[d, n]): the share of the state of each channel that a token keeps. The result differs from std::exp by
/// at most one unit in the last place. NaN stays NaN, and values that are too large become infinite. T: float or
/// double.
/// Shape: dt [channels]; a and to [channels, states], disjoint; any alignment.
template <class T>
void decays(const T* dt, const T* a, std::int64_t channels, std::int64_t states, T* to);

}  // namespace sinew::parallel
