#pragma once

#include <cstddef>
#include <optional>

#include <sinew/collectives/call/buffer_list.hpp>
#include <sinew/collectives/schedule/parts.hpp>
#include <sinew/collectives/world/communicator_state.hpp>
#include <sinew/core/work.hpp>

namespace sinew {

// Starts calls whose parts differ in length. The arguments that the description does not name have been checked.

/// The parts are separate buffers. Where a list is null, that side is a single buffer or none.
Work start_list(CommunicatorState& s, CollectiveDesc desc, const BufferList* in, const BufferList* out,
                ConstBuffer single_in, Buffer single_out, bool in_place, const CallOptions& options);

/// The counts are those that everybody gives: part of the description.
Work start_shared(CommunicatorState& s, CollectiveDesc desc, const Parts& given, ConstBuffer in, Buffer out,
                  const CallOptions& options);

/// Counts that only this rank knows: the call's own chunks. No parts: this rank has no such buffer.
struct LocalCall {
  std::optional<Parts> in;
  std::optional<Parts> out;
  std::size_t in_at = 0;  ///< of CallShape, in elements
  std::size_t out_at = 0;
};
Work start_local(CommunicatorState& s, CollectiveDesc desc, const LocalCall& local, ConstBuffer in, Buffer out,
                 const CallOptions& options);

}  // namespace sinew
