#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <sinew/collectives/call_stats.hpp>
#include <sinew/collectives/trace/rank_log.hpp>
#include <sinew/core/base/export.hpp>

namespace sinew {

/// The logs of one World's ranks that were found in a folder.
struct JobLogs {
  std::uint32_t generation = 0;
  int ranks = 1;
  std::int64_t opened_realtime = 0;  ///< the first
  std::vector<RankLog> logs;         ///< by rank
  std::vector<int> missing;          ///< ranks without one
};

struct FolderLogs {
  std::vector<JobLogs> jobs;         ///< the latest first
  std::vector<std::string> refused;  ///< why, of files that should be logs
};

/// Errors: Error{InvalidArgument} for a folder that cannot be read, or has no log that can.
SINEW_API FolderLogs logs_in_folder(const std::string& folder);

/// A call that some of its ranks were in and never came out of.
struct UnfinishedCall {
  std::uint32_t communicator = 0;  ///< its id
  std::uint32_t sequence = 0;
  std::string call;          ///< "all_reduce(f32, sum, count 4) at train.cpp:12"
  std::vector<int> waiting;  ///< World ranks in it
  std::vector<int> absent;   ///< those with a log that were not
};

struct CommunicatorTrace {
  std::uint64_t identity = 0;
  std::uint32_t id = 0;
  std::vector<int> world_ranks;
  std::vector<CallStats> calls;  ///< by kind, dtype, bytes; `last_rank` is a World rank
};

struct JobTrace {
  static constexpr std::size_t kMostNamed = 100;

  std::vector<CommunicatorTrace> communicators;  ///< by id
  std::vector<UnfinishedCall> unfinished;        ///< the first kMostNamed
  std::uint64_t unfinished_calls = 0;            ///< all
  std::uint64_t calls = 0;                       ///< of all ranks
  std::int64_t clock_error = 0;                  ///< ns, the worst; below 0: of one not known
};

/// Combines the logs of all ranks. A collective counts as judged if all logs of its communicator's ranks have it. Ranks
/// without a log are left out.
/// Memory: 12 bytes for each collective, and the calls that were in flight at a time, since calls are read in the order
///         of time.
SINEW_API JobTrace trace_of(const JobLogs& job);

}  // namespace sinew
