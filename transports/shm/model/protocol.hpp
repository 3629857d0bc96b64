#pragma once

#include <cstdint>

namespace sinew::shm {

/// The protocol by which the bytes of a call move. It depends only on the call, on Facts and on the group's levels, so
/// it is equal on all ranks.
enum class Protocol : std::uint8_t {
  Inline,  ///< the bytes are in the flag line
  Lines,   ///< the bytes are in the lines behind the flag line
  Slot,    ///< each rank shows its whole contribution, in a staging slot or where it lies, and each rank combines them
  Tree,    ///< as Inline or Lines, but the bytes move up and down a tree of ranks
  TreeChunks,  ///< the bytes move up and down a tree of ranks, chunk by chunk
  Chunks,      ///< each rank combines its share, chunk by chunk, and the other ranks fetch the result
  Parts,       ///< v-forms: each rank shows a table with the places of its parts for the other ranks
};

}  // namespace sinew::shm
