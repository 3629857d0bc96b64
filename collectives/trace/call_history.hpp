#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <sinew/collectives/call_stats.hpp>
#include <sinew/collectives/plan.hpp>
#include <sinew/collectives/trace/call_tally.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/transport.hpp>

namespace sinew {

/// A collective's times on one rank, as ranks tell each other.
struct TimedCall {
  std::int64_t sequence;
  std::int64_t entered;
  std::int64_t completed;
};

/// A call that ends.
struct EndedCall {
  CallKey key;
  std::uint32_t sequence = 0;
  std::int64_t entered = 0;
  std::int64_t completed = 0;
  Code outcome = Code::Ok;
};

/// One rank's calls on one communicator: sums of all, and the times of the latest. A call of a new size, once there are
/// kMostSizes, counts for the next power of two. Memory: 100 KiB for times, and up to some 150 KiB for sums.
/// Thread: the one that drives the engine.
class SINEW_API CallHistory {
 public:
  static constexpr std::size_t kLatest = 2048;
  static constexpr std::size_t kMostSizes = 1024;

  explicit CallHistory(int ranks) noexcept : ranks_(ranks) {}
  int ranks() const noexcept { return ranks_; }

  /// `way`: what its plan chose; null: it had none.
  void add(EndedCall call, const Candidate* way);
  /// The latest collectives that went well, by sequence, on a clock that is `ahead_ns` behind this rank's.
  std::vector<TimedCall> latest(std::int64_t ahead_ns) const;
  /// `everybody`: latest() of each rank; `rank`: this one's place.
  std::vector<CallStats> stats(std::span<const std::vector<TimedCall>> everybody, int rank) const;

 private:
  struct Row {
    std::string algorithm;
    std::string transport;
    Seconds predicted = 0;
    std::uint64_t calls = 0, failed = 0;
    std::int64_t total_ns = 0;
  };
  int ranks_;
  std::map<CallKey, Row> rows_;
  std::vector<EndedCall> latest_;  // a ring
  std::size_t next_ = 0;
};

}  // namespace sinew
