#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>

#include <sinew/collectives/trace/job_trace.hpp>
#include <sinew/core/system/file_descriptor.hpp>
#include <sinew/tools/info/commands/call_trace.hpp>

#include "only_errors.hpp"

namespace {

/// A log in a file of this process alone.
sinew::RankLog log_of(const sinew::FileDescriptor& memory, const std::uint8_t* data, std::size_t size) {
  if (::ftruncate(memory.get(), 0) != 0 || ::pwrite(memory.get(), data, size, 0) != static_cast<ssize_t>(size))
    std::abort();
  return sinew::RankLog("/proc/self/fd/" + std::to_string(memory.get()));
}

}  // namespace

/// The logs of two ranks of a job, one behind the other: what is said of them, and the events for Chrome.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const sinew::FileDescriptor first(::memfd_create("first", MFD_CLOEXEC));
  static const sinew::FileDescriptor second(::memfd_create("second", MFD_CLOEXEC));
  const std::size_t half = size / 2 / sizeof(sinew::CallCell) * sizeof(sinew::CallCell);
  sinew::test::only_errors([&] {
    sinew::JobLogs job;
    job.logs.push_back(log_of(first, data, half));
    if (half < size) sinew::test::only_errors([&] { job.logs.push_back(log_of(second, data + half, size - half)); });
    if (job.logs.size() == 2 && job.logs[0].about().rank >= job.logs[1].about().rank) job.logs.pop_back();
    const sinew::JobTrace trace = sinew::trace_of(job);
    for (const auto& communicator : trace.communicators) (void)sinew::to_text(communicator.calls);
    std::ostringstream events;
    sinew::tools::write_call_trace(job, events);
  });
  return 0;
}
