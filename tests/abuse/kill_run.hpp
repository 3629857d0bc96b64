#pragma once

#include <cstdint>
#include <string>

#include "victim.hpp"

namespace sinew::abuse {

/// A job of which one rank is killed.
struct KillRun {
  std::string transport;
  int ranks = 2;
  int victim = 0;
  Moment moment = Moment::Idle;
  std::int64_t delay_us = 0;  ///< from when all are in the moment to the kill

  std::string to_string() const;
};

/// How it went.
struct KillOutcome {
  double worst_s = 0;     ///< from the kill to the last survivor's return
  std::string last_said;  ///< that survivor's error
  std::string fault;      ///< empty: all survivors named the right rank, shrank, and had 100 right sums
  bool is_hang = false;   ///< it had to be ended
  std::string left_over;  ///< what it left behind; empty: nothing
};

/// launcher: sinew-run, or empty: none, and rank 0 serves the store; self: this program, whose `victim` runs ranks.
KillOutcome run_kill(const KillRun& run, const std::string& launcher, const std::string& self);

}  // namespace sinew::abuse
