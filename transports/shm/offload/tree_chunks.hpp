#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <sinew/transports/shm/memory/layout.hpp>
#include <sinew/transports/shm/model/levels.hpp>
#include <sinew/transports/shm/model/tree.hpp>
#include <sinew/transports/shm/offload/chunk_history.hpp>
#include <sinew/transports/shm/offload/members.hpp>
#include <sinew/transports/shm/offload/pending_call.hpp>

namespace sinew::shm {

/// Runs one call of Protocol::TreeChunks at a time. Two kinds of work go through the chunks in their order. Each goes
/// on when the words of the neighbours in the tree allow it:
///   up    combines this rank's input with the partial results of its children, for the parent to read;
///   down  takes the result from the parent, for the children to read.
/// So each chunk enters each part of the host once. All levels of the tree work at the same time. Bytes are staged in
/// the group states. A chunk there is overwritten after its readers have said that they have read it.
class TreeChunks {
 public:
  /// All outlive it.
  TreeChunks(Members& members, const Levels& levels, ChunkHistory& history);

  /// Makes the tree for calls with the root of `call`. Later calls with this root cannot fail. Errors: std::bad_alloc.
  void prepare(const PendingCall& call) { static_cast<void>(tree_of(call)); }
  /// True if the rank is the parent or a child of this rank. Only neighbours must have announced the call.
  bool is_neighbour(const PendingCall& call, int rank);
  /// All neighbours have announced `call`.
  void begin(const PendingCall& call);
  /// At most one chunk of each kind. Returns how many.
  int step() noexcept;
  bool can_step() const noexcept { return can_go_up() || can_come_down(); }
  bool finished() const noexcept { return up_ == chunks_ && down_ == chunks_; }

 private:
  /// A chunk of the call.
  struct Part {
    std::uint64_t chunk = 0;   ///< its number in the group's count
    std::uint64_t offset = 0;  ///< in the call's buffers
    std::uint64_t bytes = 0;
  };

  const Tree& tree_of(const PendingCall& call);
  Part part_of(std::uint64_t index) const noexcept;
  bool reached(int rank, LoneWord GroupState::*word, std::uint64_t count) const noexcept;
  bool children_reached(LoneWord GroupState::*word, std::uint64_t count) const noexcept;
  bool all_reached(LoneWord GroupState::*word, std::uint64_t count) const noexcept;
  bool stage_is_free(std::uint64_t chunk) const noexcept;
  bool result_is_free(std::uint64_t chunk) const noexcept;
  bool can_go_up() const noexcept;
  bool can_come_down() const noexcept;
  void go_up() noexcept;
  void come_down() noexcept;
  void say(LoneWord& word, std::uint64_t count) noexcept;
  void finish() noexcept;

  Members& members_;
  const Levels& levels_;
  ChunkHistory& history_;
  const Stages stages_;
  std::vector<std::optional<Tree>> trees_;  // by root, once used
  std::vector<const void*> sources_;
  PendingCall call_;
  const Tree* tree_ = nullptr;
  bool goes_up_ = false;
  bool comes_down_ = false;
  std::uint64_t chunk_bytes_ = 0;
  std::uint64_t chunks_ = 0;
  std::uint64_t up_ = 0;    // chunks of this call that have gone up
  std::uint64_t down_ = 0;  // and that have come down
};

}  // namespace sinew::shm
