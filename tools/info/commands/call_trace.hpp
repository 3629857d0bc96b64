#pragma once

#include <cstddef>
#include <functional>
#include <iosfwd>

#include <sinew/collectives/trace/job_trace.hpp>

namespace sinew::tools {

/// Writes the calls of all ranks for chrome://tracing and Perfetto: a process for each rank, and in it a thread for
/// each communicator. Calls of a communicator that are in flight at the same time get further threads, because viewers
/// show no events of a thread that overlap. A call that never ended only begins.
/// Units:  microseconds since the first rank's log begins.
/// Memory: that of one call, whatever the number of calls.
/// `before_rank`: receives the place of each rank's log before that log is written.
void write_call_trace(
    const JobLogs& job, std::ostream& to, const std::function<void(std::size_t)>& before_rank = [](std::size_t) {});

}  // namespace sinew::tools
