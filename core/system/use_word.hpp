#pragma once

#include <atomic>
#include <cstdint>

namespace sinew {

/// Says which object a place in memory holds, and how many threads use the object. The place may hold one object after
/// another, and every object has a generation of its own. A thread enters before it uses the object, and leaves
/// afterwards. To enter is one atomic instruction, which also finds out whether the object is still there. So bindings
/// can refuse an object that was freed, and an object that another thread uses.
/// Thread: any.
/// Cost:   enter_alone() and leave_alone() together are one locked instruction and one store.
class UseWord {
 public:
  enum class Entry : std::uint8_t {
    Entered,
    Stale,  ///< the place does not hold an object of this generation
    Busy,   ///< another thread uses the object
  };
  /// Generations are less than this number, and at least 1.
  static constexpr std::uint64_t kGenerations = std::uint64_t{1} << 36;

  /// True if the place holds the object of this generation, and nobody has closed it.
  bool holds(std::uint64_t generation) const noexcept {
    const std::uint64_t word = word_.load(std::memory_order_acquire);
    return word >> kGenerationAt == generation && (word & kClosed) == 0;
  }

  /// Enters if no other thread uses the object.
  Entry enter_alone(std::uint64_t generation) noexcept { return swap_unused(generation, 1); }
  /// Leaves after enter_alone(). Precondition: every user of the object enters by enter_alone().
  /// Does nothing if the object is gone, which a child of fork may free while it is inside.
  void leave_alone(std::uint64_t generation) noexcept {
    if (word_.load(std::memory_order_relaxed) != (generation << kGenerationAt | 1)) return;
    word_.store(generation << kGenerationAt, std::memory_order_release);
  }

  /// Enters beside other users. Returns Busy if the object is closed.
  Entry enter(std::uint64_t generation) noexcept {
    std::uint64_t word = word_.load(std::memory_order_relaxed);
    do {
      if (word >> kGenerationAt != generation) return Entry::Stale;
      if ((word & kClosed) != 0) return Entry::Busy;
    } while (!word_.compare_exchange_weak(word, word + 1, std::memory_order_acquire, std::memory_order_relaxed));
    return Entry::Entered;
  }
  /// Leaves after enter().
  void leave() noexcept { word_.fetch_sub(1, std::memory_order_release); }

  /// Closes an object that nobody uses: from now on nobody can enter.
  Entry close(std::uint64_t generation) noexcept { return swap_unused(generation, kClosed); }
  /// Takes close() back.
  void reopen(std::uint64_t generation) noexcept {
    word_.store(generation << kGenerationAt, std::memory_order_release);
  }
  /// The closed object is gone. Its generation stays refused for ever.
  void retire() noexcept {
    std::uint64_t next = (word_.load(std::memory_order_relaxed) >> kGenerationAt) + 1;
    if (next == kGenerations) next = 1;
    word_.store(next << kGenerationAt | kClosed, std::memory_order_release);
  }
  /// The generation that open() will give. Precondition: the place is new or retired.
  std::uint64_t next_generation() const noexcept { return word_.load(std::memory_order_relaxed) >> kGenerationAt; }
  /// The place holds a new object from now on. Returns its generation. Precondition: the place is new or retired.
  std::uint64_t open() noexcept {
    const std::uint64_t generation = next_generation();
    word_.store(generation << kGenerationAt, std::memory_order_release);
    return generation;
  }
  /// The generation of the object that the place holds, or 0 if it holds none.
  std::uint64_t generation() const noexcept {
    const std::uint64_t word = word_.load(std::memory_order_acquire);
    return (word & kClosed) != 0 ? 0 : word >> kGenerationAt;
  }

 private:
  static constexpr int kGenerationAt = 24;
  static constexpr std::uint64_t kClosed = std::uint64_t{1} << 23;

  Entry swap_unused(std::uint64_t generation, std::uint64_t state) noexcept {
    std::uint64_t found = generation << kGenerationAt;
    if (word_.compare_exchange_strong(found, found | state, std::memory_order_acquire, std::memory_order_relaxed))
      return Entry::Entered;
    return found >> kGenerationAt == generation ? Entry::Busy : Entry::Stale;
  }

  /// The generation above bit 24, kClosed, and the number of users below.
  std::atomic<std::uint64_t> word_{std::uint64_t{1} << kGenerationAt | kClosed};
};

}  // namespace sinew
