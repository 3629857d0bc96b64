#pragma once

#include <cstdint>
#include <map>

#include <sinew/collectives/communicator.hpp>
#include <sinew/core/work.hpp>
#include <sinew/parallel/data_parallel/memory/group_memory.hpp>
#include <sinew/parallel/data_parallel/memory/held_memory.hpp>
#include <sinew/parallel/data_parallel/memory/scatter_stage.hpp>

namespace sinew::parallel {

/// Gathers of int8 parameters and sums of int4 gradients. Each has two halves: one encodes and sends, and the other one
/// decodes what has arrived.
class CodedExchanges {
 public:
  explicit CodedExchanges(HeldMemory& memory) : memory_(&memory) {}

  /// Sends the codes of this rank's shard to all ranks. The codes of all shards arrive at the end of the whole's own
  /// memory, where decode_values() reads them.
  Work gather(GroupMemory& values, Communicator& ranks, const CallOptions& call);
  /// Every rank decodes all shards, its own too.
  static void decode_values(GroupMemory& values);

  /// Sends the codes of the shards of a stage. `exchange`: its number.
  Work scatter(std::int32_t exchange, const ScatterStage& stage, GroupMemory& gradients, Communicator& ranks,
               const CallOptions& call);
  /// Adds what has arrived. `factor`: of the sums of the last stage.
  void add(std::int32_t exchange, const ScatterStage& stage, GroupMemory& gradients, float factor);

  /// Drops the codes of exchanges that failed.
  void drop() { codes_.clear(); }

 private:
  HeldMemory* memory_;
  std::map<std::int32_t, HeldMemory::Piece> codes_;  // by exchange: what is sent, then what arrives
};

}  // namespace sinew::parallel
