#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include <sinew/core/call/collective.hpp>
#include <sinew/core/host/cpu.hpp>

/// The memory through which the ranks of a group see each other. Each rank has a GroupState for each group, in its own
/// shared segment. Only that rank writes the GroupState; the other ranks map it and read it. A GroupState holds plain
/// data, offsets, and atomic words with one writer each.
///
/// Call number s is announced in slot s % kRing. Announcements are not acknowledged. A rank writes a slot again when
/// the `done` words of all ranks have passed the call in that slot. Each announcement carries the `done` of its writer.
/// So while ranks keep up with each other, the announcements tell which slots are free.
namespace sinew::shm {

inline constexpr std::size_t kRing = 32;
inline constexpr std::size_t kInlineBytes = 40;
inline constexpr std::size_t kLinesBytes = 2048;

using Word = std::atomic<std::uint64_t>;
static_assert(Word::is_always_lock_free && sizeof(Word) == 8);

/// How a rank lets the others at a buffer.
enum class Access : std::uint8_t {
  Staged,   ///< the rank has copied it into its group state
  Segment,  ///< it lies in the rank's shared segment, at this offset
  Address,  ///< it lies at this address; threads of the process read it there, other processes through the kernel
};

/// Where a rank's buffers are, for calls that read them in place.
struct Places {
  std::uint64_t in;
  std::uint64_t out;
  double factor;  ///< of this rank's contribution (PreMulSum)
  Access in_access;
  Access out_access;
};
static_assert(sizeof(Places) <= kInlineBytes);

/// One announcement. Everything but `stamp` is written before it and read after it.
struct alignas(kCacheLine) FlagLine {
  Word stamp;  ///< salt and sequence of the call
  Fingerprint fingerprint;
  std::uint32_t history;  ///< upper half of Call::history: every earlier difference shows here, whatever way it took
  /// The low half of the number of the last call that the writer has finished reading. Protocol::Tree: the last call
  /// that all ranks of its subtree have finished reading.
  std::uint32_t done;
  std::array<std::byte, kInlineBytes> payload;

  /// `done` in full; the line is of that call.
  std::uint64_t done_before(std::uint64_t sequence) const noexcept {
    return sequence - static_cast<std::uint32_t>(static_cast<std::uint32_t>(sequence) - done);
  }
};
static_assert(sizeof(FlagLine) == kCacheLine);

struct alignas(kFalseSharing) Slot {
  FlagLine line;
  alignas(kCacheLine) std::array<std::byte, kLinesBytes> payload;
};

/// A word on lines of its own.
struct alignas(kFalseSharing) LoneWord {
  Word value;
};

struct GroupState {
  std::array<Slot, kRing> ring;
  LoneWord done;     ///< salt and the last call that this rank has finished reading; kClosed: reads no more, ever
  LoneWord staged;   ///< chunks staged, over all calls
  LoneWord taken;    ///< chunks of everybody's inputs used up (and, where it reduces, of results ready), over all calls
  LoneWord pulled;   ///< chunks of everybody's results copied, over all calls
  LoneWord passed;   ///< Protocol::TreeChunks: chunks of results that the children may read, over all calls
  LoneWord reading;  ///< threads of one process: 1 while it reads buffers of the others
  std::array<Slot, kRing> results;  ///< Protocol::Tree: results that this rank passes to its children
};

/// The memory behind a GroupState has stages of inputs and stages of results for Protocol::Chunks and
/// Protocol::TreeChunks. Behind them are the staging slots for Protocol::Slot and Protocol::Parts. The kernel provides
/// pages on first use.
inline constexpr std::size_t kAllInputBytes = 1536 << 10;
inline constexpr std::size_t kAllResultBytes = 768 << 10;
inline constexpr std::size_t kStagesAt = (sizeof(GroupState) + 4095) / 4096 * 4096;  // not a page
inline constexpr std::size_t kResultsAt = kStagesAt + kAllInputBytes;
inline constexpr std::size_t kSlotsAt = kResultsAt + kAllResultBytes;

/// The stages of each rank of a group. A stage holds one chunk, and successive chunks use successive stages. Writing a
/// cache line is slow while another core still has the line in its cache. With many stages, a stage is written again
/// only after its readers' caches have lost its lines. Small groups therefore have many stages. Large groups have few,
/// because a stage of inputs has a chunk for each reader: with more stages the chunks would be too short.
class Stages {
 public:
  constexpr explicit Stages(std::uint64_t ranks) noexcept : count_(ranks <= 4 ? 12 : ranks <= 8 ? 6 : 3) {}

  constexpr std::uint64_t count() const noexcept { return count_; }
  /// The length of a stage of inputs, with a chunk for each reader.
  constexpr std::uint64_t input_bytes() const noexcept { return kAllInputBytes / count_; }
  /// The length of a stage of results, with one chunk.
  constexpr std::uint64_t result_bytes() const noexcept { return kAllResultBytes / count_; }
  /// Where the inputs of a chunk are in the group's memory of a rank. Chunks are counted over all calls.
  constexpr std::uint64_t input_at(std::uint64_t chunk) const noexcept {
    return kStagesAt + chunk % count_ * input_bytes();
  }
  constexpr std::uint64_t result_at(std::uint64_t chunk) const noexcept {
    return kResultsAt + chunk % count_ * result_bytes();
  }

 private:
  std::uint64_t count_;
};
inline constexpr std::size_t kSlotMostBytes = 128 << 10;  ///< of one call
inline constexpr std::size_t kUnitBytes = 1 << 10;        ///< calls take whole ones (staging.hpp)

/// The more, the longer ago the other cores have read what is written next, and the less a write waits for them.
constexpr std::size_t slots_bytes(std::size_t ranks) noexcept { return std::size_t{ranks <= 4 ? 1536U : 1024U} << 10; }
constexpr std::size_t group_state_bytes(std::size_t ranks) noexcept { return kSlotsAt + slots_bytes(ranks); }
static_assert(group_state_bytes(2) <= std::size_t{4} << 20);

/// The upper 16 bits of a stamp belong to the group: 15 random ones above a one, which memory that is new has not.
/// Memory that has found another owner is mistaken only where two groups drew the same, one time in 32,768.
inline constexpr std::uint64_t kSequenceMask = (std::uint64_t{1} << 48) - 1;
inline constexpr std::uint64_t kClosed = kSequenceMask;

}  // namespace sinew::shm
