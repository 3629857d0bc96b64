#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <sinew/collectives/execution/executable.hpp>
#include <sinew/collectives/execution/scratch_pool.hpp>
#include <sinew/core/buffer.hpp>
#include <sinew/core/error.hpp>

namespace sinew {

/// The memory of the sized messages of one call in flight (schedule/sized_messages.hpp). The heads of all messages lie
/// in one block, since their length is known before the call. A message that is longer than its head gets a block of
/// its own when its sizes are known.
/// Thread: one at a time.
class SizedMemory {
 public:
  /// Begins a call. `chunks.scratch` has the sizes that this rank knows. take_head() adds the others.
  /// Lifetime: all arguments outlive the call. `heads` has SizedMessages::head_bytes() bytes.
  void begin(const Executable& executable, ChunkTable& chunks, std::byte* heads);
  /// Ends the call and gives the blocks back to the pool.
  void end(ScratchPool& pool) noexcept;

  /// Gives the run of a chunk its memory, and writes the sizes of its chunks in front. A second call does nothing.
  /// Precondition: this rank knows the sizes of all chunks in the run.
  /// Errors: System if there is no memory.
  Status lay_out(std::uint32_t chunk, ScratchPool& pool);
  /// Reads the sizes in a head of `bytes` bytes that rank `from` has sent, and lays the run out.
  /// Errors: Mismatch if a size is not the one that this rank expects, or if the head has not as many bytes as the
  ///         sizes say. The message names both ranks and both numbers. System if there is no memory.
  Status take_head(const Step& receive, std::size_t bytes, ScratchPool& pool);

  /// The memory of a head that is received. Its length is the most bytes that a head has.
  Buffer head_room(std::uint32_t chunk) const noexcept;
  /// The two parts of a message whose run is laid out. The rest is empty if the head is the whole message.
  Buffer head(std::uint32_t chunk) const noexcept;
  Buffer rest(std::uint32_t chunk) const noexcept;
  /// The memory of a chunk, whose run is laid out.
  std::byte* data(std::uint32_t chunk) const noexcept;

 private:
  struct Message {
    std::byte* memory = nullptr;
    std::uint64_t bytes = 0;   // of the whole message; 0: it is not laid out
    ScratchPool::Block block;  // of a message that is longer than its head
  };

  std::uint32_t number(std::uint32_t chunk) const noexcept { return executable_->sized->run_of[chunk]; }
  const SizedMessages::Run& run(std::uint32_t chunk) const noexcept { return executable_->sized->run_with(chunk); }

  const Executable* executable_ = nullptr;
  ChunkTable* chunks_ = nullptr;
  std::vector<Message> messages_;  // by run
};

}  // namespace sinew
