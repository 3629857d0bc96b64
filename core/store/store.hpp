#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/buffer.hpp>
#include <sinew/core/deadline.hpp>

namespace sinew {

/// Small values that the processes of a job share by name: how they find each other, and what they agree on.
/// Thread: any; calls of one object take turns. A deadline that is not given is the store's own timeout.
/// Errors: Timeout naming the key and who did not come; PeerLost where a rank that is waited for, or whoever serves the
///         store, is gone.
class SINEW_API Store {
 public:
  virtual ~Store() = default;

  virtual void set(std::string_view key, std::span<const std::byte> value, Deadline deadline = {}) = 0;
  /// Waits until the key is there.
  virtual Bytes get(std::string_view key, Deadline deadline = {}) = 0;
  /// Waits until all keys are there.
  virtual void wait(std::span<const std::string> keys, Deadline deadline = {}) = 0;
  /// Adds to a counter, which starts at 0, and returns its new value.
  virtual std::int64_t add(std::string_view key, std::int64_t amount, Deadline deadline = {}) = 0;
  /// Replaces `expected` (nullopt: no such key) by `desired`; false: the key held something else and is unchanged.
  virtual bool compare_and_set(std::string_view key, std::optional<std::span<const std::byte>> expected,
                               std::span<const std::byte> desired, Deadline deadline = {}) = 0;
  /// Whether the key was there.
  virtual bool erase(std::string_view key, Deadline deadline = {}) = 0;

  /// Everybody's bytes by rank, once all `ranks` have come: one round trip for each of them. Calls with the same name
  /// form rounds.
  /// Errors: as above, and Mismatch where ranks disagree on `ranks` or two say that they are the same one.
  virtual std::vector<Bytes> all_gather(std::string_view name, int rank, int ranks, std::span<const std::byte> mine,
                                        Deadline deadline = {}) = 0;
};

}  // namespace sinew
