#pragma once

#include <cstdint>
#include <vector>

#include <sinew/core/error.hpp>
#include <sinew/transports/shm/offload/chunk_history.hpp>
#include <sinew/transports/shm/offload/geometry.hpp>
#include <sinew/transports/shm/offload/members.hpp>
#include <sinew/transports/shm/offload/pending_call.hpp>

namespace sinew::shm {

/// Runs one call of Protocol::Chunks at a time. Three kinds of work each go through the chunks in their order, as soon
/// as the words of the other ranks allow it. So ranks work on different chunks at the same time:
///   stage    copies this rank's inputs to its group state, unless the other ranks can read them where they lie;
///   combine  combines this rank's share of all inputs;
///   fetch    copies the other ranks' results, or their inputs if nothing is reduced.
/// A chunk of a buffer is overwritten after all its readers have said that they have read it. A call in place needs a
/// copy only if ranks swap parts: all_to_all then stages its inputs.
class Chunks {
 public:
  Chunks(Members& members, const Facts& facts, ChunkHistory& history)
      : members_(members),
        facts_(facts),
        history_(history),
        layout_(static_cast<std::uint64_t>(members.count())),
        peers_(static_cast<std::size_t>(members.count())) {}

  /// All ranks have announced `call`.
  void begin(const PendingCall& call);
  /// At most one chunk of each kind. Returns how many.
  int step() noexcept;
  bool can_step() const noexcept { return can_stage() || can_combine() || fetchable() >= 0; }
  /// Nothing is read any more: done, or status() says why not.
  bool finished() const noexcept { return finished_; }
  const Status& status() const noexcept { return status_; }

  std::size_t memory_bytes() const noexcept { return bounce_.capacity(); }

 private:
  struct Buffer {
    const std::byte* mapped = nullptr;  ///< readable here
    std::uint64_t address = 0;          ///< else through the kernel
    bool staged = false;
  };
  struct Peer {
    Buffer in;
    Buffer out;
    double factor = 1.0;
    std::uint64_t fetched = 0;  ///< chunks
  };

  Peer& peer(int rank) noexcept { return peers_[static_cast<std::size_t>(rank)]; }
  const Peer& peer(int rank) const noexcept { return peers_[static_cast<std::size_t>(rank)]; }
  Buffer resolve(int rank, Access access, std::uint64_t place) const noexcept;
  bool all_reached(LoneWord GroupState::*word, std::uint64_t count) const noexcept;

  bool can_stage() const noexcept;
  bool can_combine() const noexcept;
  int fetchable() const noexcept;
  bool can_fetch(int rank) const noexcept;
  void stage() noexcept;
  void show(std::byte* to, const std::byte* from, std::uint64_t bytes) const noexcept;
  void combine_chunk() noexcept;
  void combine_and_show(std::byte* to, std::byte* results, std::uint64_t bytes) noexcept;
  void fetch(int rank) noexcept;
  void show_and_keep(std::byte* stage, const Range& part) noexcept;
  const void* input_of(int rank, const Range& wanted, const Range& part, const Range& block) noexcept;
  std::byte* bounce_of(int rank) noexcept;
  void read_from(int rank, std::byte* to, std::uint64_t address, std::uint64_t bytes) noexcept;
  void say(LoneWord& word, std::uint64_t count) noexcept;
  void finish_if_done() noexcept;
  std::uint64_t least_fetched() const noexcept;

  Members& members_;
  const Facts& facts_;
  ChunkHistory& history_;
  const Stages layout_;
  PendingCall call_;
  Geometry geometry_;
  std::vector<Peer> peers_;
  std::uint64_t block_ = 0;  // combined at once: as much of every rank as bounce_ holds, where it is needed
  std::vector<std::byte> bounce_;
  std::vector<const void*> sources_;
  std::uint64_t staged_ = 0;  ///< of this call
  std::uint64_t combined_ = 0;
  bool stages_ = false;  ///< this rank's inputs go through its group state
  bool stages_results_ = false;
  bool keeps_while_staging_ = false;  ///< all_gather: the own block goes to the result chunk by chunk
  bool in_place_swap_ = false;
  bool waits_for_first_ = false;  ///< reduce_scatter with out == in: rank 0 reads where my result goes
  bool finished_ = true;
  Status status_;
};

}  // namespace sinew::shm
