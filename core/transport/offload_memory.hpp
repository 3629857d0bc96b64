#pragma once

#include <cstddef>
#include <string>

#include <sinew/core/buffer.hpp>
#include <sinew/core/call/cost.hpp>
#include <sinew/core/completion.hpp>

namespace sinew {

/// Device memory that an offload allocates and registers, so that calls use it without copies. Not every offload has
/// it.
/// Thread: as the offload.
class OffloadMemory {
 public:
  virtual ~OffloadMemory() = default;
  /// Returns yes, or why memory of this kind would have no advantage. The answer is equal on all ranks of the group.
  /// The other functions may be called only if it is yes.
  virtual Availability available() const = 0;
  /// Names the kind of memory, for example "a window of NCCL 2.28.9".
  virtual std::string describe() const = 0;
  /// Allocates `bytes` bytes, 1 or more, on this rank's device. They are freed with the last copy of the region.
  /// Thread:   that last copy may be destroyed on any thread.
  /// Lifetime: the memory may outlive the offload.
  /// Errors:   Error{System} with the runtime's text.
  virtual Region allocate(std::size_t bytes) = 0;
  /// Registers memory of allocate(). It is a collective over the group, in the order of the group's calls, and all
  /// ranks pass the same number of bytes. Never blocks: `done` fires in progress(). The last copy of the region
  /// unregisters the memory.
  virtual void attach(const Region& region, Completion& done) = 0;
};

}  // namespace sinew
