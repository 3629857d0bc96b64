#pragma once

#include <sinew/collectives/schedule.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/call/collective.hpp>

namespace sinew {

/// Orders the steps of a program by what they read and write: a read after the write it needs, a write after every
/// earlier read and write of the same memory, in place included. Dependencies that are there already stay; those that
/// another one implies are left out. Messages of one pair need no order among themselves: their numbers match.
/// If messages are sized, a step also waits for the receives that tell the sizes of the runs that it uses.
/// Cost: linear in the chunks that the steps touch; a step with several candidates walks back to the oldest of them.
SINEW_API void derive_dependencies(Collective collective, Program& program);

}  // namespace sinew
