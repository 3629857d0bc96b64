#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sinew {

/// Numbers for things that a peer must be able to name: a number is never a pointer, and one that is out of date or
/// made up finds nothing. Cost: no allocation once the table has grown to what is in use at a time.
template <class T>
class SlotTable {
 public:
  std::uint32_t insert(T& thing) {
    if (free_ == kNone) {
      free_ = static_cast<std::uint32_t>(slots_.size());
      slots_.push_back({});
    }
    const std::uint32_t index = free_;
    Slot& slot = slots_[index];
    free_ = slot.next_free;
    slot.thing = &thing;
    ++count_;
    return slot.serial << kIndexBits | index;
  }
  T* find(std::uint32_t number) const noexcept {
    const std::uint32_t index = number & kIndexMask;
    if (index >= slots_.size() || slots_[index].serial != number >> kIndexBits) return nullptr;
    return slots_[index].thing;
  }
  /// nullptr: no such number. The number means nothing from here on.
  T* erase(std::uint32_t number) noexcept {
    T* thing = find(number);
    if (thing == nullptr) return nullptr;
    Slot& slot = slots_[number & kIndexMask];
    slot = {nullptr, (slot.serial + 1) & kSerialMask, free_};
    free_ = number & kIndexMask;
    --count_;
    return thing;
  }
  std::size_t count() const noexcept { return count_; }

  /// Calls visit(thing, number) for everything in the table; `visit` may erase that thing.
  template <class Visit>
  void for_each(Visit visit) {
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      const Slot slot = slots_[i];
      if (slot.thing != nullptr) visit(*slot.thing, slot.serial << kIndexBits | static_cast<std::uint32_t>(i));
    }
  }

 private:
  static constexpr std::uint32_t kIndexBits = 20;
  static constexpr std::uint32_t kIndexMask = (1u << kIndexBits) - 1;
  static constexpr std::uint32_t kSerialMask = (1u << (32 - kIndexBits)) - 1;
  static constexpr std::uint32_t kNone = ~0u;

  struct Slot {
    T* thing = nullptr;
    std::uint32_t serial = 0;
    std::uint32_t next_free = kNone;
  };

  std::vector<Slot> slots_;
  std::uint32_t free_ = kNone;
  std::size_t count_ = 0;
};

}  // namespace sinew
