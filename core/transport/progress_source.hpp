#pragma once

namespace sinew {

/// Something that moves only when it is polled: a transport, an offload, a running schedule.
/// Sleeping: arm(), and if every source's arm() said true, poll(2) on the descriptors, then disarm().
class ProgressSource {
 public:
  virtual ~ProgressSource() = default;
  /// The only place where completions fire; returns how many events it handled. Never blocks.
  virtual int progress() noexcept = 0;
  /// Something is posted that only progress() can finish. The engine polls idle sources rarely.
  virtual bool active() const noexcept = 0;
  /// Readable when there may be something to do; -1: nobody can be woken by this source, it must be polled.
  virtual int wake_descriptor() const noexcept = 0;
  /// Just before sleeping. false: something is there already, call progress first. true: a later event makes the
  /// descriptor readable; no event between is lost.
  virtual bool arm() noexcept = 0;
  virtual void disarm() noexcept = 0;
};

}  // namespace sinew
