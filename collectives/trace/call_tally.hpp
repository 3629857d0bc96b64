#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include <sinew/collectives/call_stats.hpp>
#include <sinew/core/base/export.hpp>

namespace sinew {

/// The key of calls that are counted together.
struct CallKey {
  Collective collective = Collective::Barrier;
  DType dtype = DType::U8;
  std::uint64_t bytes = 0;
  friend auto operator<=>(const CallKey&, const CallKey&) = default;
};

/// Makes the key of a call from its record (call_record.hpp). Bytes are 0 for shared counts.
/// Precondition: the fingerprint's collective and dtype exist.
SINEW_API CallKey key_of(Fingerprint fingerprint, std::uint64_t extent, int ranks) noexcept;

/// The time of a call on one rank.
/// Units: ns of a clock that all ranks share.
struct CallSpan {
  int rank = 0;  ///< in the communicator
  std::int64_t entered = 0;
  std::int64_t completed = 0;
};

/// The time of one collective on all its ranks. The ranks are added in any order.
class SINEW_API CollectiveTiming {
 public:
  void add(const CallSpan& span) noexcept;
  int ranks() const noexcept { return ranks_; }
  std::int64_t skew_ns() const noexcept { return last_.entered - first_entered_; }
  int last_rank() const noexcept { return last_.rank; }
  /// The time from the last rank's call to the last rank's result. Clocks may differ, so it is at least the time that
  /// the last rank took.
  std::int64_t time_ns() const noexcept;

 private:
  int ranks_ = 0;
  std::int64_t first_entered_ = std::numeric_limits<std::int64_t>::max();
  std::int64_t end_ = std::numeric_limits<std::int64_t>::min();
  CallSpan last_{.rank = -1, .entered = std::numeric_limits<std::int64_t>::min()};
};

/// Counts the collectives or messages of one key.
/// Memory: 12 bytes for each call.
class SINEW_API CallTally {
 public:
  void add(const CollectiveTiming& timing, std::optional<Seconds> predicted = {});
  /// Adds a message, or a call of a rank alone.
  void add_alone(std::int64_t ns, std::optional<Seconds> predicted = {});
  /// Sets the members of `stats` from `judged` on, except `total`. `ranks` is the size of the communicator.
  void fill(CallStats& stats, int ranks) const;

 private:
  std::vector<float> times_s_;
  std::vector<float> skews_s_;
  std::vector<float> predicted_s_;
  std::vector<std::uint64_t> last_;  ///< the number of calls in which a rank was last, by rank
};

}  // namespace sinew
