#pragma once

#include <rdma/fabric.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <sinew/core/system/file_descriptor.hpp>
#include <sinew/transports/ofi/peer_address.hpp>
#include <sinew/transports/ofi/provider/handles.hpp>
#include <sinew/transports/ofi/rail.hpp>

namespace sinew::ofi {

/// A rail of this rank, and a peer's address there.
struct RailTo {
  std::uint32_t rail = 0;
  fi_addr_t peer = FI_ADDR_UNSPEC;
};
/// All rails to one peer, the first before the others; both sides have them in the same order.
struct RailsTo {
  std::array<RailTo, kMostRails> rails{};
  std::uint32_t count = 1;
};

/// The rails of one transport. Frames go over the first. The pieces of announced messages take turns over all that lead
/// to the peer.
class Rails {
 public:
  /// The first must open; each of the others is left out, with a line in the log at level debug, if it does not.
  /// Errors: those of Rail, of the first.
  Rails(std::vector<Info> infos, bool sleeps);

  Rail& first() noexcept { return *all_.front(); }
  const Rail& first() const noexcept { return *all_.front(); }
  Rail& at(std::uint32_t rail) noexcept { return *all_[rail]; }
  std::size_t count() const noexcept { return all_.size(); }

  /// The addresses of the rails behind the first, for peers.
  std::vector<RailName> further_names() const;
  /// The addresses of this peer, inserted. Errors: those of Rail::insert.
  RailsTo reach(const PeerAddress& self, const PeerAddress& peer);
  /// As Rail::cut_off, of all rails to the peer.
  bool cut_off(const RailsTo& peer) noexcept;

  int poll();
  void close_endpoints() noexcept;
  /// As of a Rail, for all of them.
  int wake_descriptor() const noexcept;
  bool arm() noexcept;
  void disarm() noexcept;

 private:
  std::vector<std::unique_ptr<Rail>> all_;
  FileDescriptor sleep_;  // of several rails: holds their descriptors
};

}  // namespace sinew::ofi
