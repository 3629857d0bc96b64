#pragma once

#include <cstddef>
#include <functional>
#include <iosfwd>

#include <sinew/collectives/trace/job_trace.hpp>

namespace sinew::tools {

/// All ranks' calls as one JSON array for chrome://tracing and Perfetto: a process for each rank, in it a thread for
/// each communicator, and further ones where calls are under way at the same time, as viewers show no events of a
/// thread that overlap. A call that never ended only begins.
/// Units:  microseconds since the first rank's log begins.
/// Memory: that of one call, whatever the number of calls.
/// `before_rank`: told the place of each rank's log before it is written.
void write_chrome_trace(
    const JobLogs& job, std::ostream& to, const std::function<void(std::size_t)>& before_rank = [](std::size_t) {});

}  // namespace sinew::tools
