#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/call/collective.hpp>
#include <sinew/core/call/cost.hpp>

namespace sinew {

/// What calls of one kind, dtype and size on one communicator took. A collective begins when its last rank comes and
/// ends when the last one has its result; how long ranks waited for the last is its skew. Messages (send, recv, groups)
/// begin and end on one rank, and have no skew.
/// Units: seconds, bytes as CollectiveDesc::bytes() counts them (0: local counts without a bound), bytes per second.
struct CallStats {
  Collective collective = Collective::Barrier;
  DType dtype = DType::U8;
  std::uint64_t bytes = 0;  ///< of sizes after the first 1024 their next power of two
  std::string algorithm;    ///< of the latest; empty: messages
  std::string transport;
  std::uint64_t calls = 0;   ///< that ended
  std::uint64_t failed = 0;  ///< of them not well
  std::uint64_t judged = 0;  ///< of them those that the rest is of: they ended well, and all ranks' times are known
  Seconds total = 0;         ///< of all calls, on one rank, waiting included; in a trace the mean over its ranks
  Seconds time_median = 0;
  double busbw = 0;  ///< of the median, as nccl-tests counts it; 0: no bytes
  Seconds skew_median = 0;
  Seconds skew_worst = 0;
  int last_rank = -1;            ///< most often the last to come, in the communicator; -1: messages, or one rank
  std::uint64_t last_calls = 0;  ///< of `judged` those in which it was
  Seconds predicted = 0;         ///< median; 0: nobody has predicted it

  /// How many times as long as predicted; 0: not predicted.
  double measured_by_predicted() const noexcept { return predicted > 0 ? time_median / predicted : 0; }
};

/// Of one communicator since it was made.
struct CommunicatorStats {
  std::vector<CallStats> calls;  ///< by kind, dtype, bytes
  Seconds clock_error = 0;       ///< of skews between hosts; 0: one clock; below 0: not known
};

/// A table of them, a line each.
SINEW_API std::string to_text(const std::vector<CallStats>& calls);

}  // namespace sinew
