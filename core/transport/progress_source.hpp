#pragma once

namespace sinew {

/// An object whose work moves on only inside progress(): a transport, an offload, a running schedule.
/// A thread that wants to sleep calls arm() of all its sources. If all return true, it waits in poll(2) for their
/// descriptors. Then it calls disarm().
class ProgressSource {
 public:
  virtual ~ProgressSource() = default;
  /// Moves the work on and returns how many events it handled. Completions fire only here. Never blocks.
  virtual int progress() noexcept = 0;
  /// True while work is posted that only progress() can finish. The engine polls other sources rarely.
  virtual bool active() const noexcept = 0;
  /// A descriptor that is readable when there may be work. -1: this source cannot wake a sleeping thread, so it must be
  /// polled.
  virtual int wake_descriptor() const noexcept = 0;
  /// Prepares for sleep. Returns false if there is work already: then call progress() instead of sleeping. If true is
  /// returned, every event from now on makes the descriptor readable.
  virtual bool arm() noexcept = 0;
  virtual void disarm() noexcept = 0;
};

}  // namespace sinew
