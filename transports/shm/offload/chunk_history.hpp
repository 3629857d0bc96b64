#pragma once

#include <cstdint>

namespace sinew::shm {

/// The chunks of all earlier calls of a group. Protocol::Chunks and Protocol::TreeChunks use the same words and stages
/// of the group states. All ranks count the same chunks.
struct ChunkHistory {
  std::uint64_t chunks = 0;
  /// The number of the last chunk that any rank may have read from this rank's stages. Later chunks were read only by
  /// this rank's neighbours in the tree of `root`.
  std::uint64_t read_by_any = 0;
  int root = -1;  ///< of the last call, if that was one of Protocol::TreeChunks; -1: it was none
};

}  // namespace sinew::shm
