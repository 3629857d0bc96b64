#pragma once

#include <string>

#include "hardship.hpp"

namespace sinew::abuse {

struct HardshipRun {
  std::string transport;
  int ranks = 3;
  Hardship hardship = Hardship::Stop;

  std::string to_string() const;
};

/// What is wrong with how the job lived through it; empty: nothing. Where a rank is stopped, interrupted, out of
/// descriptors, forks or has a clock that jumps, every sum is right; an exception that leaves a rank, or memory that
/// ends in it, may end the job, and then all others name that rank.
std::string run_hardship(const HardshipRun& run, const std::string& launcher, const std::string& self,
                         const std::string& jumping_clock);

}  // namespace sinew::abuse
