#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/buffer.hpp>

namespace sinew {

/// Of one world; a message that says more is not believed.
inline constexpr int kMostRanks = 1 << 20;

/// One round of an all-gather: who has come, and what they brought.
class SINEW_API Gathering {
 public:
  explicit Gathering(int ranks) : parts_(static_cast<std::size_t>(ranks)) {}

  int ranks() const noexcept { return static_cast<int>(parts_.size()); }
  bool complete() const noexcept { return came_ == parts_.size(); }
  bool has(int rank) const noexcept { return parts_[static_cast<std::size_t>(rank)].has_value(); }
  void put(int rank, std::span<const std::byte> bytes);
  /// "rank 3" or "ranks 1, 3, 7", of those that have not come; long lists end in "and 12 more".
  std::string absent() const;
  /// Only once complete.
  const Bytes& part(int rank) const noexcept { return *parts_[static_cast<std::size_t>(rank)]; }

  bool is_told = false;  ///< somebody was told that ranks are late

 private:
  std::vector<std::optional<Bytes>> parts_;
  std::size_t came_ = 0;
};

/// "rank 3" or "ranks 1, 3, 7", of the given ones; long lists end in "and 12 more".
SINEW_API std::string name_ranks(std::span<const int> ranks);

/// What a store holds, without any waiting: the one meaning of its operations, in memory and behind a socket alike.
class SINEW_API StoreTable {
 public:
  void set(std::string_view key, std::span<const std::byte> value);
  /// nullptr where there is no such key.
  const Bytes* find(std::string_view key) const;
  /// Errors: Error{InvalidArgument} if the key holds something that is no counter.
  std::int64_t add(std::string_view key, std::int64_t amount);
  bool compare_and_set(std::string_view key, std::optional<std::span<const std::byte>> expected,
                       std::span<const std::byte> desired);
  bool erase(std::string_view key);

  /// Adds a rank's part to the round under way. A complete round is no longer in the table.
  /// Errors: Error{Mismatch} as Store::all_gather, Error{InvalidArgument} for a rank outside 0..ranks-1.
  std::shared_ptr<Gathering> join(std::string_view name, int rank, int ranks, std::span<const std::byte> mine);
  /// Ends a round that will never be complete, if it still is the one under way; who comes later begins a new one.
  void abandon(std::string_view name, const Gathering* round);

 private:
  template <class Map>
  static bool drop(Map& map, std::string_view key) {
    const auto it = map.find(key);
    if (it == map.end()) return false;
    map.erase(it);
    return true;
  }

  std::map<std::string, Bytes, std::less<>> values_;
  std::map<std::string, std::shared_ptr<Gathering>, std::less<>> gatherings_;
};

}  // namespace sinew
