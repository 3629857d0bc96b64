#pragma once

#include <array>
#include <atomic>
#include <bitset>
#include <cstdint>
#include <map>
#include <source_location>
#include <string>
#include <string_view>

#include <sinew/core/base/export.hpp>
#include <sinew/core/call/group.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/runtime/call_record.hpp>

namespace sinew {

/// What a communicator says of a call as it enters it.
struct CallEntry {
  std::uint64_t communicator = 0;
  Fingerprint fingerprint = 0;
  std::uint64_t history = 0;
  std::uint32_t sequence = 0;
  std::int32_t peer = -1;
  std::uint16_t id = 0;
  const char* label = nullptr;  ///< CallOptions::label
};

/// The source line of a call, "train.cpp:12", or with a label "train.cpp:12 for bucket 3".
SINEW_API std::string site_text(const std::source_location& where, const char* label);

/// A record that waits for its second half.
struct OpenRecord {
  CallRecord* record = nullptr;
  std::uint64_t serial = 0;

  /// Cost: one read of the coarse clock and two stores; nothing if the ring has come round since.
  void complete(Code outcome) noexcept {
    if (record == nullptr || record->serial.load(std::memory_order_relaxed) != serial) return;
    record->outcome.store(static_cast<std::uint32_t>(outcome), std::memory_order_relaxed);
    record->completed.store(coarse_now(), std::memory_order_release);
  }
};

/// The writer of one rank's records: its last 1,024 calls, where peers, or a trace file, keep them beyond its end.
/// Thread:   the one that makes calls; completing may happen on another.
/// Cost:     15 ns for both halves: no allocation, lock, fence or system call; a call site seen for the first time is
///           looked up once.
class SINEW_API RecordRing {
 public:
  /// `memory`: bytes() zeroed bytes, aligned to a cache line, that live as long as the ring.
  RecordRing(std::byte* memory, int rank);
  RecordRing(const RecordRing&) = delete;
  RecordRing& operator=(const RecordRing&) = delete;

  /// Records that this rank is a member of a communicator, and the communicator's name. Nothing is recorded while all
  /// kMemberships memberships are taken.
  void join(const Group& group) noexcept;
  /// Gives up this rank's membership in a communicator. Later join() calls reuse such entries in turn, so readers still
  /// find the communicator for a while.
  void leave(std::uint64_t communicator) noexcept;

  /// Returns the counters of such calls. Where the table is full, they are those of all calls without counters of their
  /// own.
  /// Cost: a search through the counters in use.
  CallCounters& counters_of(const Group& group, Collective collective, std::string_view transport) noexcept;
  /// Counts a call that ended with an error.
  /// Cost: that of counters_of().
  void count_failed(const Group& group, Collective collective) noexcept;

  static constexpr std::size_t bytes() noexcept { return sizeof(RecordPage); }
  const RecordPage* page() const noexcept { return page_; }

  /// Gives a call that is in flight another site than the one it was entered with. Returns the text, which lives as
  /// long as the ring; null where the table of sites is full.
  const char* rename(const OpenRecord& call, const std::string& site) noexcept;

  OpenRecord enter(const CallEntry& call, const std::source_location& where) noexcept {
    const std::uint64_t serial = ++last_;
    CallRecord& r = page_->records[serial % RecordPage::kRecords];
    r.serial.store(0, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);  // no instruction where stores stay in order
    r.communicator.store(call.communicator, std::memory_order_relaxed);
    r.fingerprint.store(call.fingerprint, std::memory_order_relaxed);
    r.history.store(call.history, std::memory_order_relaxed);
    r.sequence.store(call.sequence, std::memory_order_relaxed);
    r.peer.store(call.peer, std::memory_order_relaxed);
    r.site.store(site_of(where, call.label), std::memory_order_relaxed);
    r.id.store(call.id, std::memory_order_relaxed);
    r.entered.store(coarse_now(), std::memory_order_relaxed);
    r.completed.store(0, std::memory_order_relaxed);
    r.serial.store(serial, std::memory_order_release);
    return {&r, serial};
  }

 private:
  struct Known {
    const char* file = nullptr;
    std::uint32_t line = UINT32_MAX;  ///< no location has it, so the first one is looked up
    std::uint16_t site = 0;

    bool is(const std::source_location& where) const noexcept { return file == file_of(where) && line == where.line(); }
  };
  struct Labelled : Known {
    std::string label{};
  };
  static constexpr std::size_t kKnown = 64;

  std::uint16_t site_of(const std::source_location& where, const char* label) noexcept {
    if (label != nullptr) [[unlikely]]
      return labelled_site(where, label);
    Known& known = known_[place_of(where) % kKnown];
    if (!known.is(where)) [[unlikely]]
      learn(known, where, nullptr);
    return known.site;
  }
  /// Null for a location without a line. Its file_name() is "", and each library has a copy of this text of its own.
  static const char* file_of(const std::source_location& where) noexcept {
    return where.line() == 0 ? nullptr : where.file_name();
  }
  static std::size_t place_of(const std::source_location& where) noexcept {
    return reinterpret_cast<std::uintptr_t>(file_of(where)) >> 4 ^ where.line();
  }
  std::uint16_t labelled_site(const std::source_location& where, const char* label) noexcept;
  void learn(Known& known, const std::source_location& where, const char* label) noexcept;
  /// A site's place in the table, where peers read it; end() of `sites_` where the table is full.
  std::map<std::string, std::uint16_t>::iterator site_named(const std::string& text) noexcept;

  RecordPage* page_;
  std::uint64_t last_ = 0;
  std::bitset<RecordPage::kMemberships> memberships_taken_;
  std::size_t next_membership_ = 0;
  std::size_t counters_used_ = 1;
  std::array<Known, kKnown> known_{};        // for calls without a label
  std::array<Labelled, kKnown> labelled_{};  // for calls with a label
  std::map<std::string, std::uint16_t> sites_;
};

}  // namespace sinew
