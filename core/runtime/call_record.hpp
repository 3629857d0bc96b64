#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/call/collective.hpp>
#include <sinew/core/call/group.hpp>

namespace sinew {

/// One call as its rank wrote it down, in one cache line that peers read while it is written: plain words, one writer.
/// Entering fills all but the last two words; completing adds those. `serial` is zeroed before a record is used again
/// and set after it is filled, so that a reader that finds the same one before and after has not read a mixture.
struct alignas(64) CallRecord {
  std::atomic<std::uint64_t> serial;        ///< of the call among all of its rank, from 1; 0: nothing, or being written
  std::atomic<std::uint64_t> communicator;  ///< Group::identity
  std::atomic<std::uint64_t> fingerprint;
  std::atomic<std::uint64_t> history;  ///< hash of this communicator's calls so far: two ranks that differ once stay so
  std::atomic<std::uint32_t> sequence;  ///< of the collective; of the last one for send and recv
  std::atomic<std::int32_t>
      peer;  ///< World rank of the peer, or of the first peer of a group of messages; -1 for collectives
  std::atomic<std::uint16_t> site;      ///< index into the table of call sites
  std::atomic<std::uint16_t> id;        ///< the communicator's id in tags, for people
  std::atomic<std::uint32_t> outcome;   ///< Code, once completed
  std::atomic<std::int64_t> entered;    ///< ns of CLOCK_MONOTONIC_COARSE
  std::atomic<std::int64_t> completed;  ///< 0: not yet
};
static_assert(sizeof(CallRecord) == 64 && std::atomic<std::uint64_t>::is_always_lock_free);

/// A source line that makes calls, as "file:line", and the label of these calls.
struct SiteText {
  std::atomic<std::uint32_t> length;
  char text[124];
};

/// A communicator that a rank is in, or lately was, whether or not it has called on it.
struct Membership {
  std::atomic<std::uint64_t> identity;  ///< Group::identity; 0: none, or being written
  std::atomic<std::int32_t> ranks;
  std::atomic<std::int32_t> place;   ///< this rank's number in the communicator
  char name[kLongestGroupName + 1];  ///< Group::name, filled up with zeros
};

/// Counts one rank's calls of one collective over one transport, on the communicators of one name. The first cache line
/// is written for each call. The second one says what is counted, and never changes once `ready` is set.
/// Units: bytes as in CallStats; a message counts its own bytes. All counters go round at 2^64.
struct alignas(64) CallCounters {
  static constexpr std::uint8_t kAnyCollective = 0xff;

  std::atomic<std::uint64_t> calls;   ///< that have begun
  std::atomic<std::uint64_t> bytes;   ///< of `calls`
  std::atomic<std::uint64_t> failed;  ///< that ended with an error, also those that could not begin
  std::atomic<std::uint32_t> ready;
  std::uint8_t collective;            ///< a Collective, or kAnyCollective
  char transport[24];                 ///< such as "shm+tcp", filled up with zeros; empty: no call has begun
  alignas(64) char communicator[64];  ///< its name, or "communicator 6", filled up with zeros

  /// Thread: the one that makes calls, which is the only writer.
  void count(std::uint64_t of_call) noexcept {
    calls.store(calls.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    bytes.store(bytes.load(std::memory_order_relaxed) + of_call, std::memory_order_relaxed);
  }
  void count_failed() noexcept { failed.store(failed.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
};
static_assert(sizeof(CallCounters) == 128);

/// What lies in shared memory or in a trace file, from its first byte.
struct RecordPage {
  static constexpr std::uint64_t kMagic = 0x34'64'72'6f'63'65'72'73;  // "srecord4"
  /// The bytes of kMagic that all versions of this layout have. The last one is the version.
  static constexpr std::uint64_t kMagicOfAll = 0x00'ff'ff'ff'ff'ff'ff'ff;
  static constexpr std::size_t kMemberships = 512;
  static constexpr std::size_t kCounters = 256;
  static constexpr std::size_t kRecords = 1024;
  static constexpr std::size_t kSites = 1024;

  std::atomic<std::uint64_t> magic;
  std::atomic<std::int32_t> rank;
  std::atomic<std::int32_t> pid;
  std::atomic<std::int32_t>
      world_ranks;  ///< size of the World, whose communicator has no entry in `memberships`; 0: unknown
  std::array<CallRecord, kRecords> records;  ///< the record of serial s is s % kRecords
  std::array<SiteText, kSites> sites;        ///< 0: more places than the table holds
  std::array<Membership, kMemberships> memberships;
  std::array<CallCounters, kCounters> counters;  ///< 0: all calls for which the table has no room
};

/// A copy of a membership in a page.
struct MembershipSeen {
  std::uint64_t communicator = 0;
  int ranks = 0;
  int place = 0;
  std::string name{};
};

/// A copy of counters in a page.
struct CountersSeen {
  std::string communicator{};
  std::string collective{};  ///< "other": of the calls for which the table has no room
  std::string transport{};   ///< empty: no call has begun
  std::uint64_t calls = 0;
  std::uint64_t bytes = 0;
  std::uint64_t failed = 0;
};

/// A record taken out of a page.
struct CallSeen {
  std::uint64_t serial = 0;
  std::uint64_t communicator = 0;
  Fingerprint fingerprint = 0;
  std::uint64_t history = 0;
  std::uint32_t sequence = 0;
  std::int32_t peer = -1;
  std::uint16_t site = 0;
  std::uint16_t id = 0;
  std::uint32_t outcome = 0;
  std::int64_t entered = 0;
  std::int64_t completed = 0;

  Collective collective() const noexcept { return static_cast<Collective>(fingerprint & 31); }
  bool message() const noexcept { return is_message(collective()); }
};

/// Reads a page of any rank, its own too, while its writer goes on.
class SINEW_API RecordReader {
 public:
  explicit RecordReader(const RecordPage* page) noexcept : page_(page) {}

  /// The record at a place of the ring; nothing where there is none, or where it is being written.
  std::optional<CallSeen> at(std::size_t place) const noexcept;
  /// The call a rank made as number `sequence` of a communicator.
  std::optional<CallSeen> find(std::uint64_t communicator, std::uint32_t sequence) const noexcept;
  /// The latest call on a communicator; messages count only where there is no collective.
  std::optional<CallSeen> latest(std::uint64_t communicator) const noexcept;
  /// The latest call of all.
  std::optional<CallSeen> latest() const noexcept;
  /// A communicator that the rank is in, or lately was; nothing where there is none.
  std::optional<MembershipSeen> membership(std::size_t index) const noexcept;
  /// The counters that the rank has begun to use.
  std::vector<CountersSeen> counters() const;
  std::string site(std::uint16_t index) const;
  /// Names the communicator of a call as Group::text() does: "tp of 2". It is "communicator 6" if another communicator
  /// has taken its membership since.
  std::string communicator(const CallSeen& call) const;

 private:
  const RecordPage* page_;
};

/// Nanoseconds on the clock of the records: a word the kernel keeps up to date a few hundred times a second.
/// Cost: 5 ns, no system call, no time stamp counter.
inline std::int64_t coarse_now() noexcept {
  timespec t;
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
  return t.tv_sec * std::int64_t{1'000'000'000} + t.tv_nsec;
}

}  // namespace sinew
