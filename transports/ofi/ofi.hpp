#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <sinew/core/config.hpp>
#include <sinew/core/fabric.hpp>

/// Messages over libfabric, whatever provider it has: reliable datagram endpoints, one per World.
///
/// Two ways lead to a peer. Frames (frame.hpp) are untagged messages of at most 16 KiB into buffers that are always
/// posted: control, and eager payload. The core matcher decides with what they say. Payload that was announced and has
/// found its receive travels as native tagged messages, straight between the users' buffers, under a tag that the
/// receiver chose and from this peer only (directed receive). docs/adr/0007 says why matching is not the provider's.
///
/// Strangers: the connections are the provider's and it authenticates nobody. A frame counts only with the key of its
/// pair (session_key.hpp), which only those who know the job's secret can make; tagged receives take from this peer
/// only.
/// Waking: by the completion queue's descriptor, where this host's ranks are more than its cores; ranks with a core
/// each poll, and so do all with a provider that has no descriptor (shm).
namespace sinew::ofi {

Module& module() noexcept;

struct Options {
  int rank = 0;
  std::uint8_t generation = 0;
  Bytes secret;         ///< of the job
  std::string host_id;  ///< equal text: same host
  Config config;        ///< ofi_provider, interface
  NicName nic{};        ///< FabricContext
  int device = -1;      ///< the rank's CUDA device; -1: none
  /// Readable once the rank's process has ended, -1: unknown (HostPeers::life_of). The shm provider wants to know: its
  /// queues are locked by words in shared memory, and who comes to the queue of a process that died with its lock held
  /// waits for ever.
  std::function<int(int rank)> life_of = [](int) { return -1; };
  /// Waits may sleep on the completion queue's descriptor. Where there is one, the kernel serves it with every segment
  /// that comes, asleep or not: tcp;ofi_rxm on loopback, 8 bytes 0.5 us, 1 MiB 25 us.
  bool sleeps = true;
  std::size_t eager_bytes = 16 * 1024 - 64;  ///< with its header within what ofi_rxm sends in one piece
  std::size_t eager_credit_bytes = 256 * 1024;
  /// Announced messages are cut into pieces of this, or of what the provider takes: what a socket holds, so that
  /// neither side waits for the other in the middle of one (docs/performance.md). The receiver grants a few at a time:
  /// a sender that was stopped while its peer gave up has little left to pour out.
  std::size_t largest_piece = std::size_t{512} << 10;
};

/// What the module's fabric opens, without a World.
/// Errors: Error{Unavailable} where there is no such provider, naming those that there are.
std::unique_ptr<Transport> make_transport(const Options& options);

}  // namespace sinew::ofi
