#pragma once

#include <cstddef>
#include <string>

#include <sinew/core/buffer.hpp>
#include <sinew/core/call/cost.hpp>
#include <sinew/core/completion.hpp>

namespace sinew {

/// An optional ability of an offload: device memory of its own making, which it tells what lies below it of, so that
/// calls take it without copies.
/// Thread: as the offload.
class OffloadMemory {
 public:
  virtual ~OffloadMemory() = default;
  /// Yes, or why no memory is better than any other here; equal on all ranks of the group. The others are for yes.
  virtual Availability available() const = 0;
  /// What such memory is: "a window of NCCL 2.28.9".
  virtual std::string describe() const = 0;
  /// At least 1 byte of this rank's device, there until the last copy of the region has gone: on any thread, also after
  /// the offload has.
  /// Errors: Error{System} with the words of what failed.
  virtual Region allocate(std::size_t bytes) = 0;
  /// Makes known what allocate() gave. Collective over the group, in the order of its calls, equal bytes on all ranks.
  /// Never blocks; `done` fires from progress(). What is known is forgotten when the last copy of the region has gone.
  virtual void attach(const Region& region, Completion& done) = 0;
};

}  // namespace sinew
