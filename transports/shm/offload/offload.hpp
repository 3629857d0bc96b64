#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <sinew/core/offload.hpp>
#include <sinew/transports/shm/offload/announcer.hpp>
#include <sinew/transports/shm/offload/call_ring.hpp>
#include <sinew/transports/shm/offload/choices.hpp>
#include <sinew/transports/shm/offload/chunk_history.hpp>
#include <sinew/transports/shm/offload/chunks.hpp>
#include <sinew/transports/shm/offload/facts.hpp>
#include <sinew/transports/shm/offload/members.hpp>
#include <sinew/transports/shm/offload/parts.hpp>
#include <sinew/transports/shm/offload/pending_call.hpp>
#include <sinew/transports/shm/offload/tree_calls.hpp>
#include <sinew/transports/shm/offload/tree_chunks.hpp>

namespace sinew::shm {

/// Whole collectives among ranks of one host. Nobody writes into another's memory.
/// Every rank announces every call to all others, and looks at the announcements of those whose bytes it takes before
/// it takes one: whoever calls something else is found out. Only where a rank takes nothing (the root of a broadcast)
/// it goes on at once, and a difference shows in one of the next calls, by its history. Calls are announced when they
/// are launched, as far as the ring has room, and finished in order.
class ShmOffload final : public CollectiveOffload {
 public:
  /// Collective; errors are the same on all ranks.
  ShmOffload(HostPeers& host, GroupStates& group_states, const OffloadContext& context);

  /// Other facts from the next call on; all ranks at the same point, with nothing in flight.
  void use(const Facts& facts) {
    facts_ = with_cores(facts);
    choices_ = Choices(choices_.levels(), facts_);
    form_count_ = kNoForm;
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
  bool active() const noexcept override { return !calls_.empty(); }
  int wake_descriptor() const noexcept override { return members_.host().wake_descriptor(); }
  bool arm() noexcept override;
  void disarm() noexcept override { members_.host().disarm(); }

 private:
  /// The stage of the oldest call.
  enum class Stage : std::uint8_t {
    Announced,  ///< the call waits for the announcements that it needs
    Moving,     ///< Protocol::TreeChunks, Protocol::Chunks or Protocol::Parts moves bytes, in steps
    Draining,   ///< this rank has its result; other ranks still read its buffers
  };

  void take_form(const Call& call) noexcept;
  void prepare(const Call& call, PendingCall& c);
  int advance() noexcept;
  int advance_tree(PendingCall& call);
  Facts with_cores(Facts facts) const noexcept {
    facts.cores = static_cast<std::uint32_t>(members_.host().usable_cores());
    return facts;
  }
  bool can_advance() noexcept;
  bool awaits(const PendingCall& call, int rank) noexcept;
  bool meet(const PendingCall& call) noexcept;
  void fetch_shown(const PendingCall& call) noexcept;
  int left_while_read(const PendingCall& call) noexcept;
  bool nobody_left(const PendingCall& call) noexcept;
  bool begin_reading(const PendingCall& call) noexcept;
  void finish_reading(PendingCall& call) noexcept;
  void complete(PendingCall& call, Status status) noexcept;
  void fail_all() noexcept;
  Status mismatch(const PendingCall& call, int rank) const;

  Members members_;
  Facts facts_;
  Choices choices_;
  /// The form of the latest call, for calls that repeat. The fingerprint and the whole count determine it.
  static constexpr std::uint64_t kNoForm = ~std::uint64_t{0};
  CallForm form_;
  Fingerprint form_fingerprint_ = 0;
  std::uint64_t form_count_ = kNoForm;
  CallRing calls_;
  TreeCalls trees_;
  Announcer announcer_;
  ChunkHistory chunk_history_;
  Chunks chunks_;
  TreeChunks tree_chunks_;
  PartReader part_reader_;
  std::vector<const void*> shown_;
  Stage stage_ = Stage::Announced;
  int met_ = 0;  // ranks whose announcement of the oldest call is checked
  Status end_;
};

}  // namespace sinew::shm
