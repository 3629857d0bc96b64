#pragma once

#include <signal.h>

#include <initializer_list>
#include <memory>

#include <sinew/collectives/communicator.hpp>
#include <sinew/core/base/export.hpp>

namespace sinew {

/// The exit code of a rank that was asked to end and has saved its state. Whoever asked may start it again. sinew-run
/// passes the code on and does not start the ranks again. It is EX_TEMPFAIL of <sysexits.h>, os.EX_TEMPFAIL in Python.
inline constexpr int kSavedExitCode = 75;

/// Notes that a signal asks this process to end, in place of what the signal does by itself. A launcher or a scheduler
/// sends SIGTERM some time before it kills:
///     StopRequest stop;
///     for (step ..) { train(step); if (stop.came_to_any(all)) { save(step); return kSavedExitCode; } }
/// Thread:   any; came() also in signal handlers.
/// Lifetime: the end of the object gives the signals back what they did before. One object at a time.
class SINEW_API StopRequest {
 public:
  /// Errors: Error{InvalidArgument} for a signal that cannot be caught, or where another StopRequest is there.
  explicit StopRequest(std::initializer_list<int> signals = {SIGTERM});
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  /// The signal that came to this process first; 0: none came.
  int came() const noexcept;
  /// True on all ranks alike if a signal came to at least one of them. All ranks call it together.
  /// Errors: as all_reduce. Cost: an all_reduce of 4 bytes.
  bool came_to_any(Communicator& all) const;

 private:
  struct Before;
  std::unique_ptr<Before> before_;
};

}  // namespace sinew
