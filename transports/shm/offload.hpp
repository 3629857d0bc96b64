#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include <sinew/core/offload.hpp>
#include <sinew/transports/shm/chunks.hpp>
#include <sinew/transports/shm/facts.hpp>
#include <sinew/transports/shm/members.hpp>
#include <sinew/transports/shm/pending_call.hpp>
#include <sinew/transports/shm/pieces.hpp>
#include <sinew/transports/shm/staging.hpp>
#include <sinew/transports/shm/tree.hpp>

namespace sinew::shm {

/// Whole collectives among ranks of one host. Nobody writes into another's memory.
/// Every rank announces every call to all others, and looks at the announcements of those whose bytes it takes before
/// it takes one: whoever calls something else is found out. Only where a rank takes nothing (the root of a broadcast)
/// it goes on at once, and a difference shows in one of the next calls, by its history. Calls are announced when they
/// are launched, as far as the ring has room, and finished in order.
class ShmOffload final : public CollectiveOffload {
 public:
  /// Collective; errors are the same on all ranks.
  ShmOffload(HostPeers& host, Areas& areas, const OffloadContext& context);

  /// Other facts from the next call on; all ranks at the same point, with nothing in flight.
  void use(const Facts& facts) noexcept {
    facts_ = facts;
    facts_.cores = static_cast<std::uint32_t>(members_.host().usable_cores());
  }

  /// Can its ranks read each other's ordinary memory in place?
  bool reads_ordinary_memory() const noexcept { return members_.direct(); }

  std::string_view name() const noexcept override { return "shm"; }
  Availability supports(const CollectiveDesc& desc) const override;
  Seconds predict(const CollectiveDesc& desc) const override;
  std::string describe(const CollectiveDesc& desc) const override;
  void launch(const Call& call, Completion& done) override;
  void abort(const Status& reason) noexcept override;
  std::size_t memory_bytes() const noexcept override;

  int progress() noexcept override;
  bool active() const noexcept override { return head_ != next_; }
  int wake_descriptor() const noexcept override { return members_.host().wake_descriptor(); }
  bool arm() noexcept override;
  void disarm() noexcept override { members_.host().disarm(); }

 private:
  /// Of the oldest call.
  enum class Stage : std::uint8_t {
    Meeting,   ///< waiting for everybody's announcement
    Moving,    ///< Way::Chunks or Way::Pieces at work
    Draining,  ///< this rank has all it needs, others still read its buffers
  };

  PendingCall& call_at(std::uint64_t sequence) noexcept { return calls_[sequence & (calls_.size() - 1)]; }
  const PendingCall& call_at(std::uint64_t s) const noexcept { return calls_[s & (calls_.size() - 1)]; }
  Pieces& pieces_of(const PendingCall& call) noexcept { return pieces_[call.sequence & (pieces_.size() - 1)]; }
  void grow();

  bool can_announce() noexcept;
  int announce_waiting() noexcept;
  void announce(PendingCall& call) noexcept;
  void own_next(const PendingCall& call) noexcept;
  void show(PendingCall& call, Slot& slot) noexcept;
  void copy_shown(const PendingCall& call, std::byte* to) const noexcept;
  void copy_for_others(std::byte* to, const std::byte* from, std::uint64_t bytes) const noexcept;
  void show_slot(PendingCall& call, Slot& slot) noexcept;
  void show_chunks(PendingCall& call, Slot& slot) noexcept;
  void show_pieces(PendingCall& call, Slot& slot) noexcept;
  std::uint64_t staged_bytes(const PendingCall& call) noexcept;
  std::byte* take_stage(std::uint64_t bytes, std::uint64_t sequence) noexcept;
  Access access_to(const void* memory, std::uint64_t bytes) const noexcept;
  std::uint64_t place_of(const void* memory, Access access) const noexcept;

  int advance() noexcept;
  bool can_advance() noexcept;
  bool awaits(const PendingCall& call, int rank) const noexcept;
  bool meet(const PendingCall& call) noexcept;
  void fetch_shown(const PendingCall& call) const noexcept;
  const void* shown_by(const PendingCall& call, int rank) const noexcept;
  int left_while_read(const PendingCall& call) const noexcept;
  bool nobody_left(const PendingCall& call) noexcept;
  bool begin_reading(const PendingCall& call) noexcept;
  void finish_reading(PendingCall& call) noexcept;
  void complete(PendingCall& call, Status status) noexcept;
  void fail_all() noexcept;
  static bool agrees(const PendingCall& call, const FlagLine& line) noexcept;
  Status mismatch(const PendingCall& call, int rank) const;

  // Way::Tree.
  const Tree& tree_of(const PendingCall& call);
  bool subtree_is_there(const PendingCall& call);
  bool subtree_agrees(const PendingCall& call);
  std::uint64_t done_in_subtree(const PendingCall& call);
  void show_subtree(const PendingCall& call, Slot& slot);
  bool result_is_there(const PendingCall& call);
  int advance_tree(PendingCall& call);
  void take_result(const PendingCall& call, const std::byte* made) const noexcept;
  void pass_on(const PendingCall& call, const std::byte* from, std::uint64_t all_done);

  Members members_;
  Facts facts_;
  Chunks chunks_;
  PieceReader piece_reader_;
  std::vector<int> domains_;                // by rank
  std::vector<std::optional<Tree>> trees_;  // by root, once used
  std::vector<const void*> shown_;
  std::vector<PendingCall> calls_;  // by sequence, a power of two
  std::vector<Pieces> pieces_;      // of these
  std::uint64_t head_ = 1;          // oldest that is not done
  std::uint64_t announced_ = 1;     // next to be announced
  std::uint64_t next_ = 1;          // next to be launched
  Staging staging_;
  Staging::Place next_stage_;  // for the call that can be announced
  Stage stage_ = Stage::Meeting;
  int met_ = 0;  // ranks whose announcement of the oldest call is checked
  Status end_;
};

}  // namespace sinew::shm
