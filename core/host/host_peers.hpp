#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <sinew/core/base/exchange.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/deadline.hpp>
#include <sinew/core/host/cpu.hpp>
#include <sinew/core/host/shared_segment.hpp>
#include <sinew/core/system/file_descriptor.hpp>

namespace sinew {

/// Wakes one rank of this host; a value for hot paths. Lifetime: of the HostPeers that gave it.
class SINEW_API HostWaker {
 public:
  HostWaker() = default;
  HostWaker(const std::atomic<std::uint32_t>* asleep, int event, bool fence) noexcept
      : asleep_(asleep), event_(event), fence_(fence) {}

  /// After storing something for the rank. Cost: one load while it is awake.
  void notify() const noexcept {
    if (fence_) full_fence();
    std::atomic_signal_fence(std::memory_order_seq_cst);  // the sleeper's membarrier is the other half
    if (asleep_->load(std::memory_order_relaxed) != 0) wake();
  }

 private:
  void wake() const noexcept;

  const std::atomic<std::uint32_t>* asleep_ = nullptr;
  int event_ = -1;
  bool fence_ = false;
};

/// The ranks of this World that live on this host: their readable memory, process ids, and how to wake them.
/// Built inside World::create: descriptors travel over an abstract UNIX socket (SO_PEERCRED checked: same user); ranks
/// that are threads of one process share their heaps and pass nothing.
/// Sleeping: the sleeper stores its word, calls membarrier (it alone pays), looks again, then sleeps on its eventfd;
/// whoever stores something for it reads that word after the store, without a fence, and writes the eventfd if set.
/// Where one of the host's ranks has no membarrier, all use a fence on both sides.
class SINEW_API HostPeers {
 public:
  /// Collective over `world`; `host_id` equal means same host. Makes two all_gather calls, whatever goes wrong.
  /// Errors: Timeout naming the ranks that did not come; System. The same error on all ranks.
  HostPeers(const Exchange& world, const std::string& host_id, Deadline deadline);
  ~HostPeers();
  HostPeers(const HostPeers&) = delete;
  HostPeers& operator=(const HostPeers&) = delete;

  /// World ranks on this host, ascending; this rank among them.
  std::span<const int> ranks() const noexcept;
  bool contains(int world_rank) const noexcept;
  /// Cores that these ranks may use between them (CoreCount).
  int usable_cores() const noexcept;
  /// As the rank itself saw it, -1 for ranks elsewhere. A number only: see life_of.
  pid_t pid_of(int world_rank) const noexcept;
  /// Readable once the rank's process has ended: the pidfd that it opened on itself, which never means another process,
  /// or, where the kernel refuses one, a socket whose other end only it holds. -1: elsewhere.
  int life_of(int world_rank) const noexcept;
  /// Has its process ended, as far as the kernel tells? Cost: one system call.
  bool has_ended(int world_rank) const noexcept;
  /// A thread of this process?
  bool same_process(int world_rank) const noexcept;
  /// Base of the rank's shared segment in this address space (read only; mapped on first use). Errors: System where
  /// mmap refuses.
  const std::byte* memory_of(int world_rank);

  SharedSegment& shared_segment() noexcept;
  /// For who gives memory of it away that may outlive this.
  std::shared_ptr<SharedSegment> shared_segment_owner() const noexcept;

  /// Maps the rank's memory if need be; same errors as memory_of.
  HostWaker waker_of(int world_rank);
  /// After storing something for `world_rank`: wakes it if it sleeps. Cost: a lock, and one load while it is awake; hot
  /// paths keep its waker.
  void notify(int world_rank) noexcept;
  /// This rank's own eventfd, and its sleep word: arm() sets the word and orders it against all peers' loads.
  int wake_descriptor() const noexcept;
  void arm() noexcept;
  void disarm() noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sinew
