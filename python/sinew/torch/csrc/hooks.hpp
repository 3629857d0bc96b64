#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace sinew::torch_backend {

/// Functions that were registered under a number, to be called at an event.
/// Thread: any. A function is never called under the table's lock, so it may register and unregister others.
template <class... Arguments>
class Hooks {
 public:
  using Hook = std::function<void(Arguments...)>;

  void add(std::int64_t id, Hook hook) {
    change([&](Table& table) { table.emplace_back(id, std::move(hook)); });
  }
  void remove(std::int64_t id) {
    change([&](Table& table) { std::erase_if(table, [&](const auto& hook) { return hook.first == id; }); });
  }
  /// Cost: one read of memory if there is no hook.
  bool any() const noexcept { return any_.load(std::memory_order_relaxed); }
  void call(const Arguments&... arguments) const {
    for (const auto& [id, hook] : *table()) hook(arguments...);
  }

 private:
  using Table = std::vector<std::pair<std::int64_t, Hook>>;

  std::shared_ptr<const Table> table() const {
    const std::lock_guard lock(mutex_);
    return table_;
  }
  template <class Change>
  void change(Change&& change) {
    const std::lock_guard lock(mutex_);
    auto next = std::make_shared<Table>(*table_);
    change(*next);
    any_.store(!next->empty(), std::memory_order_relaxed);
    table_ = std::move(next);
  }

  mutable std::mutex mutex_;
  std::shared_ptr<const Table> table_ = std::make_shared<const Table>();  ///< replaced as a whole, as calls may run
  std::atomic<bool> any_ = false;
};

}  // namespace sinew::torch_backend
