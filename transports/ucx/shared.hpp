#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include <sinew/core/base/slot_table.hpp>
#include <sinew/core/operation.hpp>
#include <sinew/core/transport/block_pool.hpp>
#include <sinew/transports/ucx/context.hpp>
#include <sinew/transports/ucx/link.hpp>
#include <sinew/transports/ucx/peer_address.hpp>
#include <sinew/transports/ucx/rails.hpp>
#include <sinew/transports/ucx/requests.hpp>
#include <sinew/transports/ucx/ucx.hpp>

namespace sinew::ucx {

/// A message on its way to this rank. The sender may send all of it at once, or one half over each of two rails. But if
/// the message is reduced on arrival, the sender may send two fragments at a time for each rail.
struct Stream {
  static constexpr std::size_t kFragmentsOfARail = 2;
  enum class State : std::uint8_t { Idle, Asked, Fetching, Here };
  struct Fragment {
    std::byte* scratch = nullptr;
    std::uint64_t offset = 0;
    std::size_t bytes = 0;
    State state = State::Idle;
  };

  UcxEndpoint* endpoint = nullptr;
  Completion* receive = nullptr;
  std::byte* into = nullptr;  ///< its first byte's place; null: it is reduced
  std::uint64_t total = 0;
  std::uint64_t asked = 0;
  std::uint64_t delivered = 0;
  std::size_t fragment_bytes = 0;
  std::uint32_t sender = 0;  ///< its number of the message
  std::uint32_t number = 0;  ///< this rank's
  bool in_fragments = false;
  std::size_t most_fragments = kFragmentsOfARail;  ///< at a time, the first of these
  std::array<Fragment, kFragmentsOfARail * kMostRails> fragments;

  bool is_fetching() const noexcept {
    return std::ranges::any_of(fragments, [](const Fragment& f) { return f.state == State::Fetching; });
  }
  /// One that can be asked for; null: all have been asked for.
  Fragment* idle() noexcept {
    const auto end = fragments.begin() + static_cast<std::ptrdiff_t>(most_fragments);
    const auto found = std::ranges::find(fragments.begin(), end, State::Idle, &Fragment::state);
    return found == end ? nullptr : &*found;
  }
};

/// Memory that UCX may still write.
struct HeldMemory {
  ~HeldMemory() {
    for (void* block : blocks) ::operator delete(block);
  }
  std::vector<void*> blocks;
};

/// What the endpoints of one transport share. The order of the members is that of their lives: UCX may end requests,
/// and write into the scratch of streams, until its worker is gone.
struct Shared {
  explicit Shared(const Options& o) : options(o) {}

  Options options;
  Requests requests;
  BlockPool pool;
  HeldMemory held;
  std::size_t held_requests = 0;
  FinishedOperations finished;
  std::size_t pending = 0;  ///< operations begun and not fired
  PeerAddress self;
  SlotTable<Stream> streams;
  std::deque<Stream> stream_memory;
  std::vector<Stream*> free_streams;
  std::vector<std::unique_ptr<Link>> links;  ///< by rank
  std::deque<Link> rail_links;               ///< of all peers: each carries data over one rail
  std::vector<UcxEndpoint*> ending;          ///< wait for UCX to let go of their memory
  std::vector<Link*> connected;              ///< by UCX, and have not begun
  std::vector<Link*> broken;                 ///< have failed, and their endpoints do not know yet
  Context ucx{options.size};
  Rails rails{options.size};

  Link& link_to(int rank) {
    auto& link = links[static_cast<std::size_t>(rank)];
    if (!link) link = std::make_unique<Link>(requests, self.rank, connected, broken);
    return *link;
  }
  /// What UCX does now; how many things that were.
  unsigned turn() {
    const unsigned events = ucp_worker_progress(ucx.worker()) + rails.progress();
    for (Link* link : std::exchange(connected, {})) link->begin();
    return events;
  }
  /// UCX was asked for a connection, and knows that there will be none.
  bool has_failed(int rank) const {
    const auto r = static_cast<std::size_t>(rank);
    return r < links.size() && links[r] && links[r]->failed();
  }
};

}  // namespace sinew::ucx
