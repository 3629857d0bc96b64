#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/call/collective.hpp>
#include <sinew/core/call/cost.hpp>

namespace sinew {

/// Statistics of the calls of one collective, dtype and size on one communicator. The time of a collective begins when
/// its last rank makes the call, and ends when the last rank has its result. Its skew is the time from the first rank's
/// call to the last rank's call. Messages (send, recv, groups) have no skew. Their time is that of one rank.
/// Units: seconds and bytes per second. Bytes are those of CollectiveDesc::bytes(), or 0 for local counts without a
///        bound.
struct CallStats {
  Collective collective = Collective::Barrier;
  DType dtype = DType::U8;
  std::uint64_t bytes = 0;  ///< after 1,024 different sizes, each further size counts as the next power of two
  std::string algorithm;    ///< that of the latest call; empty: messages
  std::string transport;
  std::uint64_t calls = 0;   ///< calls that have ended
  std::uint64_t failed = 0;  ///< those of `calls` that have failed
  std::uint64_t judged = 0;  ///< those of `calls` that ended with Ok and whose times are known of all ranks
  Seconds total = 0;         ///< time of all calls on this rank, with waiting; in a trace the mean over the ranks
  Seconds time_median = 0;   ///< this and the following members are of the `judged` calls
  double busbw = 0;          ///< bus bandwidth of the median, as nccl-tests counts it; 0: no bytes
  Seconds skew_median = 0;
  Seconds skew_worst = 0;
  int last_rank = -1;            ///< the rank in the communicator that was last most often; -1: messages, or one rank
  std::uint64_t last_calls = 0;  ///< the number of calls in which that rank was last
  Seconds predicted = 0;         ///< median of the predictions; 0: there are none

  /// The measured time divided by the predicted time; 0: there is no prediction.
  double measured_by_predicted() const noexcept { return predicted > 0 ? time_median / predicted : 0; }
};

/// Statistics of one communicator since it was made.
struct CommunicatorStats {
  std::vector<CallStats> calls;  ///< in the order of collective, dtype and bytes
  Seconds clock_error = 0;       ///< error of skews between hosts; 0: all ranks have one clock; below 0: unknown
};

/// Returns the statistics as a table with a line for each element.
SINEW_API std::string to_text(const std::vector<CallStats>& calls);

}  // namespace sinew
