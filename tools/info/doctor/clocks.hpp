#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sinew/core/exchange.hpp>

#include "finding.hpp"

namespace sinew::doctor {

/// A host's CLOCK_REALTIME, in nanoseconds, before and after one round of an exchange. The moment in which the last
/// rank comes to a round lies between the two on every host.
struct ClockReading {
  std::int64_t before_ns = 0;
  std::int64_t after_ns = 0;
  friend bool operator==(const ClockReading&, const ClockReading&) = default;
};

/// Some rounds; all ranks must call it together.
std::vector<ClockReading> read_clocks(const Exchange& exchange);

/// How far `other` is ahead of `base`, give or take the error. nullopt: no offset explains all rounds, a clock was set
/// meanwhile.
struct ClockOffset {
  double seconds = 0;
  double error_s = 0;
};
std::optional<ClockOffset> offset_of(std::span<const ClockReading> other, std::span<const ClockReading> base);

/// Clocks that surely are apart by more than a tenth of a second. `readings`: by host.
std::vector<Finding> check_clocks(std::span<const std::vector<ClockReading>> readings,
                                  std::span<const std::string> hosts);

}  // namespace sinew::doctor
