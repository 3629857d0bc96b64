#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>

#include <sinew/core/store/store.hpp>
#include <sinew/core/store/store_table.hpp>

namespace sinew {

/// A store for the threads of one process.
class SINEW_API MemoryStore final : public Store {
 public:
  explicit MemoryStore(Duration timeout) : timeout_(timeout) {}

  void set(std::string_view key, std::span<const std::byte> value, Deadline deadline = {}) override;
  Bytes get(std::string_view key, Deadline deadline = {}) override;
  void wait(std::span<const std::string> keys, Deadline deadline = {}) override;
  std::int64_t add(std::string_view key, std::int64_t amount, Deadline deadline = {}) override;
  bool compare_and_set(std::string_view key, std::optional<std::span<const std::byte>> expected,
                       std::span<const std::byte> desired, Deadline deadline = {}) override;
  bool erase(std::string_view key, Deadline deadline = {}) override;
  std::vector<Bytes> all_gather(std::string_view name, int rank, int ranks, std::span<const std::byte> mine,
                                Deadline deadline = {}) override;

 private:
  /// Sleeps until `ready`; false when the deadline passes first.
  bool sleep_until(std::unique_lock<std::mutex>& lock, Deadline deadline, const std::function<bool()>& ready);

  const Duration timeout_;
  std::mutex mutex_;
  std::condition_variable changed_;
  StoreTable table_;
};

}  // namespace sinew
