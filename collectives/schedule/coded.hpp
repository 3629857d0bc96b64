#pragma once

#include <functional>

#include <sinew/collectives/schedule.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/call/collective.hpp>

namespace sinew {

/// The same program, but what it exchanges with some peers is coded. A message is encoded into Scratch unless it is
/// what a coded chunk decodes to, which then goes on as it came: nothing is coded twice on its way. What arrives is
/// decoded into its place, or added decoded. Who keeps what it has sent, as a result or an operand, keeps it as the
/// others decode it. Shape: `to_peer` says the same at both ends of a message. Dependencies are derived anew; turns are
/// not kept.
SINEW_API Program code_messages(Collective collective, Program program, const std::function<bool(int peer)>& to_peer);

}  // namespace sinew
