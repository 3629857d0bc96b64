#pragma once

#include <cstddef>
#include <string>

#include <sinew/core/base/export.hpp>
#include <sinew/core/base/inline_vector.hpp>

namespace sinew {

using Seconds = double;

/// What a rank waits for each other one that must run first, where ranks are more than cores: a turn of the scheduler.
inline constexpr Seconds kSchedulerTurn = 2e-6;

/// Bandwidth at one message size. Units: bytes, bytes per second.
struct Knot {
  double bytes = 0;
  double bytes_per_s = 0;
};

/// Predicted time to move n bytes over one link, alone: overhead_s + latency_s + what moving them takes, which is
/// n / bytes_per_s at a knot, linear from knot to knot, at the last one's rate beyond it, and never less than for fewer
/// bytes. Knots ascend in bytes. No knots: bandwidth unknown, seconds() counts latency only.
/// Source: the piecewise form of LogGP (Alexandrov et al. 1995); UCX states its transports by a linear form of it.
struct CostCurve {
  double overhead_s = 0;  ///< what one message more adds to the time of several that two ranks send each other
  double latency_s = 0;   ///< first byte
  InlineVector<Knot, 8> knots;

  SINEW_API Seconds seconds(double bytes) const noexcept;
  /// The time that the bytes add to the time of an empty message.
  Seconds moving_s(double bytes) const noexcept { return seconds(bytes) - seconds(0); }
  /// moving_s() divided by `bytes`.
  Seconds per_byte_s(double bytes) const noexcept { return bytes > 0 ? moving_s(bytes) / bytes : 0; }
};

/// Whether a transport leads from here to a peer: a curve, or the reason why not.
struct Reach {
  bool ok = false;
  std::string reason{};    ///< why not; empty where ok
  CostCurve cost{};        ///< where ok
  std::string resource{};  ///< what the cost shares: "memory", "eth0", ...; two links that name the same one compete
};

/// Whether something can be used here; `reason` says why not, for a person.
struct Availability {
  bool ok = false;
  std::string reason{};

  static Availability yes() { return {true, {}}; }
  static Availability no(std::string why) { return {false, std::move(why)}; }
};

}  // namespace sinew
