#pragma once

#include <sinew/core/base/exchange.hpp>
#include <sinew/tools/bench/buffers/buffer_ring.hpp>
#include <sinew/tools/bench/cases/options.hpp>

#include "../../../bench/peer/peer.hpp"
#include "contestant.hpp"

namespace sinew::tools {

/// Another library, loaded and started. It stops with this object, which outlives each World made from exchange().
class LoadedPeer {
 public:
  /// which: as peer_module() takes it.
  /// Errors: as peer_module(). Unavailable with the loader's reason. InvalidArgument if the ranks were started by the
  ///         launcher of another MPI.
  explicit LoadedPeer(const std::string& which);
  ~LoadedPeer();
  LoadedPeer(const LoadedPeer&) = delete;
  LoadedPeer& operator=(const LoadedPeer&) = delete;

  const bench::Peer& functions() const noexcept { return *peer_; }
  /// An exchange among the ranks, numbered as in the peer. It uses the peer's all-gather.
  Exchange exchange() const;

 private:
  const bench::Peer* peer_ = nullptr;
};

class PeerContestant : public Contestant {
 public:
  /// Errors: Error{InvalidArgument} with what the peer lacks, as require() throws it.
  PeerContestant(const LoadedPeer& peer, const BenchOptions& options, std::uint64_t count, const BufferRing& ring);
  void run(std::size_t first_slot, std::size_t calls) override;
  void settle() override { peer_.settle(); }

  static void require(const LoadedPeer& peer, const BenchOptions& options, std::uint64_t count);

 private:
  const bench::Peer& peer_;
  const BufferRing& ring_;
};

}  // namespace sinew::tools
