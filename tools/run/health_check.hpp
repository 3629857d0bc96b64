#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <sinew/core/config.hpp>
#include <sinew/core/deadline.hpp>
#include <sinew/core/net/event_loop.hpp>
#include <sinew/tools/run/check/host_verdicts.hpp>

#include "fleet.hpp"
#include "options.hpp"
#include "signals.hpp"

namespace sinew::run {

/// Runs `sinew-info doctor` as the ranks of the job on all hosts that it may take, before the job itself.
class HealthCheck {
 public:
  /// The longest time that a check of so many hosts takes.
  static Duration patience(std::size_t hosts) { return std::chrono::seconds(60) + hosts * std::chrono::seconds(1); }

  HealthCheck(const Config& config, const SignalDescriptor& signals);

  /// Leaves hosts out of `options` that cannot be reached, or on which a job would fail, and says a line on stderr for
  /// each host. The hosts that are left are examined again, together.
  /// Returns the signal that has ended the check; 0: none has.
  /// Errors: Error{InvalidArgument} naming a host and the cure, where too few hosts are left; Error{Unavailable} where
  ///         the job would fail on all hosts; Error{Timeout} where patience() has passed.
  int run(Options& options);

 private:
  /// Why places are left out, by index.
  using Faults = std::map<std::size_t, std::string>;
  /// One examination of all places.
  Faults examine(const Options& options);
  Faults judge(const std::vector<HostShare>& places, const JobVerdict& verdict) const;

  Config config_;  // with a shorter timeout
  const SignalDescriptor& signals_;
  std::optional<Deadline> deadline_;
  int ended_by_ = 0;
};

}  // namespace sinew::run
