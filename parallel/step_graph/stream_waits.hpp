#pragma once

#include <optional>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/work.hpp>

namespace sinew::parallel {

/// The exchanges for which only a device's stream has waited: those of the present pass, and those of the pass before.
/// Passes of all kinds share them. If an exchange of an ended pass has failed, what was computed from its result is
/// lost.
/// Thread: the World's.
/// Errors: that of an exchange of an ended pass, by this call and all later ones. That of an exchange of the present
///         pass, until this pass is given up.
class SINEW_API StreamWaits {
 public:
  StreamWaits() = default;
  /// Waits for all exchanges, because they use memory.
  ~StreamWaits();
  StreamWaits(const StreamWaits&) = delete;
  StreamWaits& operator=(const StreamWaits&) = delete;

  /// Adds an exchange of the present pass.
  void add(Work exchange);
  /// Ends the present pass. Waits for the exchanges of the pass before it, so that the host is at most one pass ahead
  /// of a device.
  void end_pass();
  /// Ends the present pass, which has failed although its results may have been used. Waits for all exchanges.
  void end_failed_pass() noexcept;
  /// Ends the present pass, whose results nobody uses. Waits for all exchanges. Failures of this pass are forgotten.
  void give_up_pass() noexcept;
  /// Waits for all exchanges. Their Works make progress and know deadlines, so call it before the host waits for the
  /// device's stream: a dead rank would hang the stream.
  void settle();
  /// Throws if an exchange is known to have failed.
  void require_sound() const;
  /// Returns whether an exchange of an ended pass is known to have failed, or one of the present pass if it counts.
  bool has_failed(bool counts_present) const noexcept { return lost_ || (counts_present && present_failed_); }

 private:
  void settle_all() noexcept;

  std::vector<Work> present_, before_;
  std::optional<Error> present_failed_, lost_;
};

}  // namespace sinew::parallel
