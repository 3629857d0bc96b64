#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/core/store/memory_store.hpp>

namespace sinew {

bool MemoryStore::sleep_until(std::unique_lock<std::mutex>& lock, Deadline deadline,
                              const std::function<bool()>& ready) {
  deadline = deadline.or_after(timeout_);
  while (!ready()) {
    if (deadline.passed()) return false;
    changed_.wait_for(lock, std::chrono::milliseconds(deadline.left_ms(1000)));
  }
  return true;
}

void MemoryStore::set(std::string_view key, std::span<const std::byte> value, Deadline) {
  const std::scoped_lock lock(mutex_);
  table_.set(key, value);
  changed_.notify_all();
}

Bytes MemoryStore::get(std::string_view key, Deadline deadline) {
  std::unique_lock lock(mutex_);
  if (!sleep_until(lock, deadline, [&] { return table_.find(key) != nullptr; })) {
    throw Error(Code::Timeout, fmt::format("store: key '{}' was not set before the deadline", key));
  }
  return *table_.find(key);
}

void MemoryStore::wait(std::span<const std::string> keys, Deadline deadline) {
  std::unique_lock lock(mutex_);
  for (const std::string& key : keys) {
    if (!sleep_until(lock, deadline, [&] { return table_.find(key) != nullptr; })) {
      throw Error(Code::Timeout, fmt::format("store: key '{}' was not set before the deadline", key));
    }
  }
}

std::int64_t MemoryStore::add(std::string_view key, std::int64_t amount, Deadline) {
  const std::scoped_lock lock(mutex_);
  const std::int64_t total = table_.add(key, amount);
  changed_.notify_all();
  return total;
}

bool MemoryStore::compare_and_set(std::string_view key, std::optional<std::span<const std::byte>> expected,
                                  std::span<const std::byte> desired, Deadline) {
  const std::scoped_lock lock(mutex_);
  const bool done = table_.compare_and_set(key, expected, desired);
  changed_.notify_all();
  return done;
}

bool MemoryStore::erase(std::string_view key, Deadline) {
  const std::scoped_lock lock(mutex_);
  return table_.erase(key);
}

std::vector<Bytes> MemoryStore::all_gather(std::string_view name, int rank, int ranks, std::span<const std::byte> mine,
                                           Deadline deadline) {
  std::unique_lock lock(mutex_);
  const std::shared_ptr<Gathering> round = table_.join(name, rank, ranks, mine);
  changed_.notify_all();
  if (!sleep_until(lock, deadline, [&] { return round->complete(); })) {
    table_.abandon(name, round.get());
    throw Error(Code::Timeout, fmt::format("all-gather '{}': {} of {} did not come", name, round->absent(), ranks));
  }
  std::vector<Bytes> all;
  for (int r = 0; r < ranks; ++r) all.push_back(round->part(r));
  return all;
}

}  // namespace sinew
