#pragma once

#include <cstdint>

namespace sinew::parallel {

/// exp(dt[d] * a[d, n]): what a token leaves of the state of each channel. As exact as std::exp but for a unit in the
/// last place; what is no number stays none, what is too large becomes infinite. T: float or double.
/// Shape: dt [channels]; a, to [channels, states], apart; any alignment.
template <class T>
void decays(const T* dt, const T* a, std::int64_t channels, std::int64_t states, T* to);

}  // namespace sinew::parallel
