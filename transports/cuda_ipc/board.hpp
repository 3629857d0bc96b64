#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include <sinew/core/host/host_peers.hpp>

namespace sinew::cuda_ipc {

/// The words that a rank writes for the other ranks of its group, in host memory that only this rank writes. Fragments
/// are numbered from 1 over the life of the group. The scratch memory and `fragments` have room for two at a time.
struct alignas(64) Line {
  struct Fragment {
    std::atomic<std::uint64_t> history{0};  ///< Call::history of the call that the fragment belongs to
    std::atomic<std::uint64_t> fingerprint{0};
  };
  std::atomic<std::uint64_t> given{0};    ///< the last fragment that lies in this rank's scratch memory
  std::atomic<std::uint64_t> reduced{0};  ///< the last fragment of which this rank has reduced its part there
  std::atomic<std::uint64_t> taken{0};    ///< the last fragment that this rank has read from all other ranks
  Fragment fragments[2];
  std::atomic<std::uint64_t> left{0};  ///< 1: this rank reads nothing of the others any more
};

/// The lines of one group. This rank's line stays allocated as long as the shared segment exists: a rank that has its
/// result may end its World while other ranks still read its line.
/// Thread: that of the World's engine.
class Board {
 public:
  explicit Board(HostPeers& host)
      : host_(host), memory_(host.shared_segment().allocate(sizeof(Line))), mine_(new(memory_) Line) {}
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  std::uint64_t offset() const noexcept { return host_.shared_segment().offset_of(memory_); }
  /// Adds the next rank, whose line is at `offset` in its shared segment.
  /// Errors: Error{System} if that memory cannot be mapped.
  void join(int world_rank, std::uint64_t offset) {
    lines_.push_back(reinterpret_cast<const Line*>(host_.memory_of(world_rank) + offset));
    ranks_.push_back(world_rank);
  }

  const Line& of(std::size_t rank) const noexcept { return *lines_[rank]; }
  std::size_t count() const noexcept { return lines_.size(); }
  bool all_reached(std::atomic<std::uint64_t> Line::*word, std::uint64_t fragment) const noexcept {
    for (const Line* line : lines_) {
      if ((line->*word).load(std::memory_order_acquire) < fragment) return false;
    }
    return true;
  }
  /// Has every other rank read what this one gave, or left?
  bool read_by_all() const noexcept {
    const std::uint64_t given = mine_->given.load(std::memory_order_relaxed);
    return std::ranges::all_of(lines_, [&](const Line* line) {
      return line == mine_ || line->left.load(std::memory_order_acquire) != 0 ||
             line->taken.load(std::memory_order_acquire) >= given;
    });
  }
  void leave() noexcept { mine_->left.store(1, std::memory_order_release); }
  void begin(std::uint64_t fragment, std::uint64_t history, std::uint64_t fingerprint) noexcept {
    mine_->fragments[fragment % 2].history.store(history, std::memory_order_relaxed);
    mine_->fragments[fragment % 2].fingerprint.store(fingerprint, std::memory_order_relaxed);
  }
  void reach(std::atomic<std::uint64_t> Line::*word, std::uint64_t fragment) noexcept {
    (mine_->*word).store(fragment, std::memory_order_release);
    for (const int rank : ranks_) host_.notify(rank);
  }

 private:
  HostPeers& host_;
  std::byte* memory_;
  Line* mine_;
  std::vector<const Line*> lines_;  // of all ranks, in order
  std::vector<int> ranks_;
};

}  // namespace sinew::cuda_ipc
