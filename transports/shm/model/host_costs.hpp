#pragma once

#include <array>

#include <sinew/core/base/export.hpp>
#include <sinew/core/call/cost.hpp>
#include <sinew/transports/shm/model/levels.hpp>

namespace sinew::shm {

/// The costs of lines and bytes between ranks of one host. The prediction (call_costs.hpp) and the simulator of calls
/// take all their numbers from here.
/// Units: seconds, and bytes per second of one direction.
struct HostCosts {
  /// By Shared: the time that a line takes from the rank that has written it to another rank. In this time the line
  /// goes to no other rank.
  std::array<Seconds, kShared> line_s{};
  Seconds look_s = 0;                ///< the instructions of a look at another rank's line
  Seconds call_s = 0;                ///< the instructions by which a rank launches, announces and ends a call
  Seconds step_s = 0;                ///< the instructions by which a rank passes a call on in a tree
  double copy_bytes_per_s = 0;       ///< a core copies or combines what is in its caches
  double most_bytes_per_s = 0;       ///< a core reads from another core of its cache
  double lines_in_flight = 0;        ///< lines that a core asks for at once
  double node_bytes_per_s = 0;       ///< what a NUMA node gives to all readers outside of the cache where the bytes are
  double node_link_bytes_per_s = 0;  ///< between two NUMA nodes of a socket
  double socket_link_bytes_per_s = 0;  ///< between two sockets

  /// The rate at which one core reads from another one, if nobody else reads.
  double bytes_per_s(Shared shared) const noexcept;
};

/// The costs that count until something is measured, for a host of this shape. A host whose sockets have several caches
/// is taken for an EPYC, and any other one for a Xeon. A step in a tree is assumed to take a third of the instructions
/// of a call.
/// Source: Lines: medians of github.com/nviennot/core-to-core-latency. An EPYC 7R13 (Milan) has 23 ns in a cache of 8
///         cores, 107 ns in a socket and 197 ns between sockets. A Xeon 8375C (Ice Lake) has 51 ns and 108 ns. Readers
///         of a line wait for each other: Ramos and Hoefler, HPDC 2013, find their time linear in their number.
///         Memory: 8 channels of DDR4-3200, as the datasheets of both say. Links between sockets: three xGMI links of
///         16 lanes at 16 GT/s. It is assumed that data fill 70 % of these. NUMA nodes of a socket: 32 bytes per cycle
///         of a fabric at 1.6 GHz, as in EPYC Rome (Velten and others, arXiv 2204.03290). The 12 lines in flight and
///         the rates of copies are assumed.
SINEW_API HostCosts usual_costs(const Levels& levels);
inline constexpr double kStepOfCall = 1.0 / 3;

}  // namespace sinew::shm
