#pragma once

#include <sinew/collectives/messages/open_messages.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/offload.hpp>

namespace sinew {

/// A communicator as the control plane sees it.
/// Thread: the one that drives the engine.
class Controlled {
 public:
  virtual ~Controlled() = default;
  virtual const Group& members() const noexcept = 0;
  /// Number of the last collective that was started here.
  virtual std::uint32_t last_sequence() const noexcept = 0;
  /// Why later calls end at once; Ok: it lives.
  virtual const Status& end_reason() const noexcept = 0;
  /// Ends everything pending, and all later calls, with `reason`. Does nothing the second time.
  virtual void end(const Status& reason) noexcept = 0;
  /// What that collective waits for at this moment, where it goes by messages.
  virtual OpenMessages open_messages(std::uint32_t sequence) const = 0;
  /// The value of PendingCall::owner for its calls.
  virtual const void* owner() const noexcept = 0;
};

}  // namespace sinew
