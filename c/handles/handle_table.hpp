#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string_view>

#include <sinew/core/base/process_lock.hpp>
#include <sinew/core/system/use_word.hpp>

namespace sinew::c {

/// The objects that handles stand for.
enum class Kind : std::uint8_t { World = 1, Communicator, Plan, Memory, Work };
inline constexpr std::size_t kKinds = 5;
/// "World", "communicator", "plan", "memory" or "work".
std::string_view name_of(Kind kind) noexcept;

/// A handle's number: the kind of its object, the generation of the object, and the index of its place in the table of
/// the kind. No handle is 0, because kinds begin at 1.
struct HandleId {
  static constexpr int kIndexBits = 24;
  static constexpr int kKindAt = 60;

  static constexpr std::uint64_t make(Kind kind, std::uint64_t generation, std::uint32_t index) noexcept {
    return static_cast<std::uint64_t>(kind) << kKindAt | generation << kIndexBits | index;
  }
  static constexpr unsigned kind(std::uint64_t id) noexcept { return static_cast<unsigned>(id >> kKindAt); }
  static constexpr std::uint64_t generation(std::uint64_t id) noexcept {
    return id >> kIndexBits & (UseWord::kGenerations - 1);
  }
  static constexpr std::uint32_t index(std::uint64_t id) noexcept {
    return static_cast<std::uint32_t>(id & ((std::uint64_t{1} << kIndexBits) - 1));
  }
};

/// A place of a table. It holds one entry after another, each under a generation of its own.
template <class Entry>
struct TablePlace {
  UseWord word;
  std::uint32_t index = 0;
  TablePlace* next_free = nullptr;
  Entry entry{};

  std::uint64_t id(std::uint64_t generation) const noexcept { return HandleId::make(Entry::kKind, generation, index); }
};

/// All objects of one kind that have a handle. Places are never given back to the system, so a handle that is out of
/// date leads to a place whose word refuses it.
/// Thread: any.
/// Cost:   find() reads two words.
template <class Entry>
class HandleTable {
 public:
  using At = TablePlace<Entry>;

  constexpr HandleTable() noexcept = default;
  HandleTable(const HandleTable&) = delete;
  HandleTable& operator=(const HandleTable&) = delete;

  /// The place of a handle, or null for a number that no handle of this kind has had.
  At* find(std::uint64_t id) noexcept {
    const std::uint32_t index = HandleId::index(id);
    if (HandleId::kind(id) != static_cast<unsigned>(Entry::kKind) || index >= kChunks * kChunk) return nullptr;
    At* chunk = chunks_[index / kChunk].load(std::memory_order_acquire);
    return chunk == nullptr ? nullptr : chunk + index % kChunk;
  }

  /// A free place.
  /// Errors: std::bad_alloc if all places are in use, or there is no memory.
  At& take() {
    const ProcessLock lock(OfProcess::Handles);
    if (free_ == nullptr) grow();
    At& place = *free_;
    free_ = place.next_free;
    return place;
  }
  void give_back(At& place) noexcept {
    const ProcessLock lock(OfProcess::Handles);
    place.next_free = free_;
    free_ = &place;
  }

  /// Calls visit(place, generation) for each place that holds an object which nobody has closed.
  template <class Visit>
  void for_each(Visit visit) {
    for (const auto& begin : chunks_) {
      At* chunk = begin.load(std::memory_order_acquire);
      if (chunk == nullptr) return;
      for (std::size_t i = 0; i < kChunk; ++i) {
        if (const std::uint64_t generation = chunk[i].word.generation()) visit(chunk[i], generation);
      }
    }
  }

 private:
  static constexpr std::size_t kChunk = 256;
  static constexpr std::size_t kChunks = 8192;
  static_assert(kChunk * kChunks < std::size_t{1} << HandleId::kIndexBits);

  void grow() {
    if (used_ == kChunks) throw std::bad_alloc();
    At* chunk = new At[kChunk];
    for (std::size_t i = kChunk; i-- > 0;) {
      chunk[i].index = static_cast<std::uint32_t>(used_ * kChunk + i);
      chunk[i].next_free = free_;
      free_ = &chunk[i];
    }
    chunks_[used_++].store(chunk, std::memory_order_release);
  }

  std::array<std::atomic<At*>, kChunks> chunks_{};
  std::size_t used_ = 0;
  At* free_ = nullptr;
};

/// The table of a kind. It is never destroyed: threads may use handles while the process ends.
template <class Entry>
inline constinit HandleTable<Entry> handles{};

}  // namespace sinew::c
