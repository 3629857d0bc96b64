#pragma once

#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include <sinew/c/handles/use.hpp>

namespace sinew::c {

/// The objects that were made from a World and end with it: communicators, works, plans, and memory of devices. They
/// are closed, so that nobody uses them any more. They are given back to their handles at the end, or freed by free().
class WorldObjects {
 public:
  /// Errors: InvalidArgument if another thread uses one of them.
  WorldObjects(const char* function, Taken<WorldEntry>& world);
  ~WorldObjects();
  WorldObjects(const WorldObjects&) = delete;
  WorldObjects& operator=(const WorldObjects&) = delete;

  void free() noexcept;

 private:
  template <class Entry>
  using Closed = std::vector<std::pair<TablePlace<Entry>*, std::uint64_t>>;

  template <class Entry>
  bool close_some(const char* function);
  void reopen() noexcept;

  WorldPlace& world_;
  std::uint64_t generation_;
  bool in_child_;
  std::tuple<Closed<CommunicatorEntry>, Closed<WorkEntry>, Closed<PlanEntry>, Closed<MemoryEntry>> closed_;
};

}  // namespace sinew::c
