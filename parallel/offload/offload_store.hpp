#pragma once

// Places for arrays that an engine does not need for a while. The room holds a store in a file and a store in pinned
// memory of the host. It may include nothing of the other rooms.

#include <cstddef>
#include <cstdint>

#include <sinew/core/base/export.hpp>
#include <sinew/core/buffer.hpp>

namespace sinew::parallel {

/// A store of arrays. Copies to it and from it go on while the engine computes.
///
///     const auto slot = store.write(array);     a copy begins
///     store.wait(slot);                         the array may serve other things
///     store.read(slot, to);                     a copy back begins
///     store.wait(slot);                         `to` has the bytes
///     store.release(slot);
///
/// "Ended" means for memory of the host that the copy has run. For memory of a device it means that work which the
/// engine enqueues from now on runs after the copy.
/// Thread:   one at a time.
/// Lifetime: memory that a copy reads or writes stays until done() or wait() says that the copy has ended, or until
///           release(). All slots are released before the store ends.
class SINEW_API OffloadStore {
 public:
  using Slot = std::uint64_t;

  OffloadStore() = default;
  OffloadStore(const OffloadStore&) = delete;
  OffloadStore& operator=(const OffloadStore&) = delete;
  virtual ~OffloadStore() = default;

  /// Begins to copy an array to a new slot.
  /// Errors: as the store. Nothing has begun then.
  virtual Slot write(ConstBuffer from) = 0;
  /// Begins to copy the slot's bytes to `to`, after the copies of this slot that have begun before. A slot can be read
  /// several times.
  /// Shape: `to` is as long as the array that was written.
  virtual void read(Slot slot, Buffer to) = 0;
  /// True if the copies of the slot have run, or one of them has failed. It does not wait.
  virtual bool done(Slot slot) = 0;
  /// Waits until the copies of the slot have ended.
  /// Errors: the failure of one of them, with the place of the store.
  virtual void wait(Slot slot) = 0;
  /// Gives up the slot. Copies that have yet to run are dropped. It waits for a copy that runs.
  virtual void release(Slot slot) noexcept = 0;
  /// Bytes of all arrays in the store, as their lengths say.
  virtual std::size_t stored_bytes() const noexcept = 0;
  /// Bytes that have been written and read so far.
  virtual std::uint64_t copied_bytes() const noexcept = 0;
};

}  // namespace sinew::parallel
