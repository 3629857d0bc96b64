#pragma once

#include <cstddef>
#include <cstdint>

#include <sinew/core/deadline.hpp>
#include <sinew/core/store/relay_tree.hpp>

namespace sinew::bench {

/// A start-up of many ranks: each host's first process becomes its relay, the relays form a tree, and all ranks do
/// rounds of the all-gather by which a World is made.
struct StartPlan {
  int ranks = 1;
  int ranks_per_host = 8;
  int fan_out = kRelayFanOut;
  int rounds = 2;
  std::size_t contribution = 0;  ///< bytes of each rank in each round
  /// Processes start at random moments within this time. 0: all at once, which is the hardest for rank 0.
  Duration spread{};
  Duration pace = kRelayPace;  ///< between two relays' first connections (relay_wait)
  std::uint64_t seed = 1;
};

/// Times are those of the simulation. Messages and bytes are those that a process sends or receives.
struct StartCounts {
  std::int64_t messages = 0;               ///< that all processes send
  std::int64_t rank_0_messages = 0;        ///< that the server of the store sends or receives
  std::int64_t rank_0_bytes = 0;           ///< likewise
  std::int64_t rank_0_most_waiting = 0;    ///< most messages that had arrived and were not served yet
  std::int64_t rank_0_round_messages = 0;  ///< of the last round alone
  std::int64_t busiest_relay_messages = 0;
  int rank_0_most_connections = 0;
  int depth = 0;       ///< connections between the farthest rank and the store
  double seconds = 0;  ///< until the last rank has the last round
  double last_round_seconds = 0;
};

/// Simulates a start-up with the decisions of the library itself: RelayTree, RelayService, RelayClients and
/// StoreService. Only time and the network are simulated: a message takes a fixed time between two hosts, within a
/// host, and in the process that serves it. A process serves one message after the other.
StartCounts simulate_start(const StartPlan& plan);

}  // namespace sinew::bench
