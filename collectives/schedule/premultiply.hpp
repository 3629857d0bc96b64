#pragma once

#include <sinew/collectives/schedule.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/call/collective.hpp>

namespace sinew {

/// The program of a call with PreMulSum: every contribution is scaled once, before anything reads it. Of other calls
/// the same program. An In chunk that is an Out chunk too (in place) is scaled where it is, any other into scratch,
/// which the steps then read instead. Messages stay as they are.
SINEW_API Program premultiplied(const CollectiveDesc& desc, Program program);

}  // namespace sinew
