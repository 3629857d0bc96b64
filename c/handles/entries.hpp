#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <sinew/c/handles/handle_table.hpp>
#include <sinew/collectives/world.hpp>
#include <sinew/core/system/fork_count.hpp>
#include <sinew/core/work.hpp>

namespace sinew::c {

struct WorldEntry;
using WorldPlace = TablePlace<WorldEntry>;

/// The World that an object was made from.
/// Thread: a thread with a handle that is out of date may read it while the place gets a new object, so the members are
///         atomic. The values that it has read count only if the place's word still holds the handle's generation.
class Belonging {
 public:
  WorldPlace* world() const noexcept { return world_.load(std::memory_order_relaxed); }
  std::uint64_t generation() const noexcept { return generation_.load(std::memory_order_relaxed); }
  /// True in a process that was forked since the World was made.
  bool in_child() const noexcept {
    return forks_.load(std::memory_order_relaxed) != fork_count.load(std::memory_order_relaxed);
  }
  bool is_of(const WorldPlace* world, std::uint64_t generation) const noexcept {
    return this->world() == world && this->generation() == generation;
  }

  void set(WorldPlace* world, std::uint64_t generation) noexcept {
    world_.store(world, std::memory_order_relaxed);
    generation_.store(generation, std::memory_order_relaxed);
    forks_.store(fork_count.load(std::memory_order_relaxed), std::memory_order_relaxed);
  }
  void set(const Belonging& other) noexcept { set(other.world(), other.generation()); }

 private:
  std::atomic<WorldPlace*> world_{nullptr};
  std::atomic<std::uint64_t> generation_{0};
  std::atomic<std::uint32_t> forks_{0};
};

// Each entry has `of`, and drop(), which destroys the object. A child of fork must leave the objects of its parent
// alone, so it calls forget(), which gives up the memory instead.

struct CommunicatorEntry {
  static constexpr Kind kKind = Kind::Communicator;
  Belonging of;
  Communicator* communicator = nullptr;
  std::unique_ptr<Communicator> owned;  ///< null: the World owns the communicator
  std::string stats;                    ///< what was gathered last, as JSON

  void drop() noexcept {
    owned.reset();
    communicator = nullptr;
    stats.clear();
  }
  void forget() noexcept {
    static_cast<void>(owned.release());
    communicator = nullptr;
  }
};

struct PlanEntry {
  static constexpr Kind kKind = Kind::Plan;
  Belonging of;
  std::unique_ptr<Plan> plan;
  std::size_t in_bytes = 0;  ///< the lengths of this rank's buffers; 0 where it has none
  std::size_t out_bytes = 0;

  void drop() noexcept { plan.reset(); }
  void forget() noexcept { static_cast<void>(plan.release()); }
};

struct MemoryEntry {
  static constexpr Kind kKind = Kind::Memory;
  Belonging of;
  std::unique_ptr<Memory> memory;
  bool outlives_world = false;

  void drop() noexcept { memory.reset(); }
  void forget() noexcept { static_cast<void>(memory.release()); }
};

struct WorkEntry {
  static constexpr Kind kKind = Kind::Work;
  Belonging of;
  Work work;

  void drop() noexcept { const Work ended = std::move(work); }
  void forget() noexcept { static_cast<void>(new (std::nothrow) Work(std::move(work))); }
};

struct WorldEntry {
  static constexpr Kind kKind = Kind::World;
  Belonging of;  ///< itself
  std::atomic<bool> is_single{true};
  std::unique_ptr<World> world;
  std::uint64_t communicator = 0;  ///< the handle of World::communicator()
  std::vector<TransportStatus> transports;

  void drop() noexcept {
    world.reset();
    transports.clear();
  }
  void forget() noexcept { static_cast<void>(world.release()); }
};

}  // namespace sinew::c
