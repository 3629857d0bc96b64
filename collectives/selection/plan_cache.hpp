#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <sinew/collectives/execution/executable.hpp>
#include <sinew/collectives/selection/selector.hpp>
#include <sinew/core/runtime/call_record.hpp>

namespace sinew {

/// A call signature made ready: what to launch. One per distinct signature.
struct ReadyPlan {
  const void* owner = nullptr;  ///< the communicator; null: it has gone
  CollectiveDesc desc;          ///< its `user`, `counts` and `displacements` are these: the caller's may be gone
  std::vector<std::uint64_t> counts;
  std::vector<std::uint64_t> displacements;
  Fingerprint fingerprint = 0;  ///< of `desc`
  Selection selection;
  Reducer reducer;
  ManyReducer many;
  Scaler scaler;
  CallCounters* counters = nullptr;  ///< of its calls, in this rank's page
  std::uint64_t counted_bytes = 0;   ///< of each call: CollectiveDesc::bytes()
  std::uint32_t logged = 0;          ///< its number in the log of calls; 0: it has none
  static constexpr std::uint8_t kMostTimed = 16;
  std::uint8_t timed = 0;                                 ///< calls that were timed for later jobs, up to kMostTimed
  std::array<std::unique_ptr<Executable>, 2> executable;  ///< out of place, in place; made on first use
};

/// The plans of one communicator, and a direct-mapped table in front of them.
/// Cost: 15 ns for a call that was made before; a call that shares its place in the table with another one in turns
///       pays for a search through all plans.
class PlanCache {
 public:
  /// `fingerprint`: of `desc`. `make()` gives the plan of a call that has none; it may drop others before.
  template <class Make>
  ReadyPlan& find(const CollectiveDesc& desc, Fingerprint fingerprint, Make&& make) {
    ReadyPlan*& slot = slots_[fingerprint * 0x9e3779b97f4a7c15u >> (64 - kSlotBits)];
    if (slot == nullptr || !is_for(*slot, desc, fingerprint)) {
      slot = &search(desc, fingerprint, std::forward<Make>(make));
    }
    return *slot;
  }

  /// The same, for one who keeps it.
  template <class Make>
  std::shared_ptr<ReadyPlan> share(const CollectiveDesc& desc, Fingerprint fingerprint, Make&& make) {
    const ReadyPlan& plan = find(desc, fingerprint, std::forward<Make>(make));
    return *std::ranges::find(plans_, &plan, &std::shared_ptr<ReadyPlan>::get);
  }

  /// How many nobody else keeps.
  std::size_t idle() const noexcept {
    return static_cast<std::size_t>(std::ranges::count_if(plans_, [](const auto& p) { return p.use_count() == 1; }));
  }
  template <class F>
  void for_each(F&& visit) const {
    for (const auto& plan : plans_) visit(*plan);
  }
  /// Drops all plans, each after `release(plan)`.
  template <class F>
  void drop_all(F&& release) noexcept {
    drop([](const auto&) { return true; }, release);
  }
  /// Drops those that nobody else keeps and that are not `in_use`.
  template <class F>
  void drop_idle(std::span<const ReadyPlan* const> in_use, F&& release) noexcept {
    drop([&](const auto& p) { return p.use_count() == 1 && std::ranges::find(in_use, p.get()) == in_use.end(); },
         release);
  }

 private:
  static constexpr int kSlotBits = 6;

  /// Compares what the fingerprint folds or leaves out one by one.
  static bool is_for(const ReadyPlan& plan, const CollectiveDesc& desc, Fingerprint fingerprint) noexcept {
    return plan.fingerprint == fingerprint && plan.desc.count == desc.count && plan.desc.root == desc.root &&
           plan.desc.captured == desc.captured && plan.desc.determinism == desc.determinism &&
           plan.desc.place == desc.place && plan.desc.separate == desc.separate &&
           plan.desc.pre_multiply == desc.pre_multiply && plan.desc.largest_bytes == desc.largest_bytes &&
           (!has_shared_counts(desc.collective) || same_parts(plan.desc, desc)) &&
           (desc.op != ReduceOp::User || plan.reducer == *desc.user);
  }

  [[gnu::noinline]] static bool same_parts(const CollectiveDesc& a, const CollectiveDesc& b) noexcept {
    return std::ranges::equal(a.counts, b.counts) && std::ranges::equal(a.displacements, b.displacements);
  }

  template <class Goes, class Release>
  void drop(const Goes& goes, Release& release) noexcept {
    slots_.fill(nullptr);
    std::erase_if(plans_, [&](const std::shared_ptr<ReadyPlan>& plan) {
      if (!goes(plan)) return false;
      release(*plan);
      return true;
    });
  }

  template <class Make>
  ReadyPlan& search(const CollectiveDesc& desc, Fingerprint fingerprint, Make&& make) {
    for (auto& plan : plans_) {
      if (is_for(*plan, desc, fingerprint)) return *plan;
    }
    std::shared_ptr<ReadyPlan> made = std::forward<Make>(make)();
    made->fingerprint = fingerprint;
    plans_.push_back(std::move(made));
    return *plans_.back();
  }

  std::array<ReadyPlan*, 1 << kSlotBits> slots_{};
  std::vector<std::shared_ptr<ReadyPlan>> plans_;
};

}  // namespace sinew
