#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include <sinew/core/error.hpp>
#include <sinew/core/host/host_peers.hpp>
#include <sinew/core/matcher.hpp>
#include <sinew/transports/shm/messages/port.hpp>

namespace sinew::shm {

class ShmEndpoint;

/// What the endpoints of one rank share.
struct Hub {
  HostPeers& host;
  int rank;
  std::uint8_t generation;
  std::uint64_t salt;  ///< of all rings that this rank writes
  Port* port = nullptr;
  /// The longest message that is sent before its receive is known, in bytes.
  std::atomic<std::uint64_t> eager_bytes{kFragmentBytes};
  /// Longer messages from ordinary memory are read through the kernel if they have at least the first and less than the
  /// second number of bytes. All others are copied into the ring once their receive is known.
  std::atomic<std::uint64_t> read_from_bytes{~std::uint64_t{0}};
  std::atomic<std::uint64_t> read_to_bytes{~std::uint64_t{0}};
  /// The longest frame, in lines, that is pushed to the cache that cores share. 0: no frame is.
  std::atomic<std::size_t> demoted_lines{0};
  std::uint64_t proof = 0;  ///< Port::proof, in ordinary memory
  BlockPool pool;
  FinishedOperations finished;
  std::vector<std::uint32_t> free_tickets;
  std::vector<ShmEndpoint*> endpoints;
};

/// What the endpoint to one peer, its Sender and its Receiver share: the memory through which both ranks talk, and how
/// the connection has ended.
struct Connection {
  Connection(Hub& hub, const PortAddress& address);

  Hub& hub;
  const int peer;
  Box& mine;
  const Box& theirs;
  const Port& their_port;
  const std::byte* const their_heap;
  const bool same_process;
  Status end{};  ///< Ok while it lasts
};

}  // namespace sinew::shm
