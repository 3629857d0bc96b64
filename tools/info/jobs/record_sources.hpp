#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include <sinew/collectives/control/verdict/diagnosis.hpp>

namespace sinew::tools {

/// The ranks of a job whose records were found.
struct JobRecords {
  std::string name;                ///< "processes started by 1234", "folder/, generation 0"
  std::vector<RankRecords> ranks;  ///< by rank; those that were not found in between have no page
};

/// Records that ranks kept in a folder (SINEW_TRACE), the newest generation first.
/// Errors: Error{InvalidArgument} for a folder that cannot be read or has no records.
std::vector<JobRecords> jobs_in_folder(const std::string& folder);

/// Finds records in shared memory of processes on this host. Processes with the same parent are one job.
/// `only`: looks at these processes and at those that they started; empty: at all that this user may look at.
/// Errors: Error{InvalidArgument} if there are no records. The text says how to make records visible, and which
///         processes have records of another version of sinew. The same for a process of `only` that does not exist or
///         that this user may not look at.
std::vector<JobRecords> jobs_running(const std::vector<pid_t>& only);

}  // namespace sinew::tools
