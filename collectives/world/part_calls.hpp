#pragma once

#include <cstddef>
#include <optional>

#include <sinew/collectives/call/buffer_list.hpp>
#include <sinew/collectives/schedule/parts.hpp>
#include <sinew/collectives/world/communicator_state.hpp>
#include <sinew/core/work.hpp>

namespace sinew {

// Starts calls whose parts differ in length. The arguments that the description does not name have been checked.

/// Starts a call whose parts are separate buffers. If a list is null, that side is a single buffer, or there is none.
Work start_list(CommunicatorState& s, CollectiveDesc desc, const BufferList* in, const BufferList* out,
                ConstBuffer single_in, Buffer single_out, bool in_place, const CallOptions& options);

/// Starts a call with shared counts: all ranks pass the same counts, which belong to the description.
Work start_shared(CommunicatorState& s, CollectiveDesc desc, const Parts& given, ConstBuffer in, Buffer out,
                  const CallOptions& options);

/// Local counts, which only this rank knows. A rank without such a buffer has no parts.
struct LocalCall {
  std::optional<Parts> in;
  std::optional<Parts> out;
  std::size_t in_at = 0;   ///< in elements; see CallShape
  std::size_t out_at = 0;  ///< in elements; see CallShape
};
Work start_local(CommunicatorState& s, CollectiveDesc desc, const LocalCall& local, ConstBuffer in, Buffer out,
                 const CallOptions& options);

}  // namespace sinew
