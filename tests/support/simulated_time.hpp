#pragma once

#include <sinew/collectives/selection/selector.hpp>

namespace sinew::test {

/// How long a selected schedule takes where links and cores are as `facts` says: every rank's program runs on a clock,
/// in the segments and as deep as the executor runs it. A message starts when both ends have posted it; messages that
/// leave one rank, or come to one, share its way in equal parts; a rank computes one step at a time and has a core.
/// Shape: ranks of one host, or one rank per host: a rank's way out is its own.
/// Source: LogGP, Alexandrov et al., 1995.
Seconds simulated_time(const Selection& selection, const CollectiveDesc& desc, const Facts& facts);

}  // namespace sinew::test
