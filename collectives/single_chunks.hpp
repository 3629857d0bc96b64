#pragma once

#include <sinew/collectives/schedule.hpp>
#include <sinew/core/collective.hpp>
#include <sinew/core/export.hpp>

namespace sinew {

/// The same data flow with one chunk per step: several chunks are one run of memory only where no displacements tear
/// them apart, which differs from rank to rank. All ranks of a v-form run this form, so that their messages agree.
SINEW_API Program single_chunks(Collective collective, Program program);

}  // namespace sinew
