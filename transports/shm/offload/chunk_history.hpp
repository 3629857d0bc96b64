#pragma once

#include <cstdint>

namespace sinew::shm {

/// The chunks of all earlier calls of a group. Protocol::Chunks and Protocol::TreeChunks use the same words and stages
/// of the group states. All ranks count the same chunks.
struct ChunkHistory {
  std::uint64_t chunks = 0;
  /// Until here, any rank may have read this rank's stages. Behind it, only neighbours in the tree of `root` have.
  std::uint64_t read_by_any = 0;
  int root = -1;  ///< of the last call, if that was one of Protocol::TreeChunks; -1: it was none
};

}  // namespace sinew::shm
