#include <algorithm>
#include <cstdint>
#include <exception>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sinew/c/border/arguments.hpp>
#include <sinew/c/border/last_error.hpp>
#include <sinew/c/handles/use.hpp>
#include <sinew/c/work.h>
#include <sinew/core/base/thrown.hpp>

using namespace sinew;
using namespace sinew::c;

namespace {

/// Asks the call how it has ended. If it has ended, its work is freed.
/// `ask` returns the status of a Work, Pending if it has not ended.
template <class Ask>
Status end_work(const char* function, sinew_work& work, Ask&& ask) {
  Taken<WorkEntry> taken(function, work.id);
  if (taken.in_child()) reject_child(function);
  Status status = ask(taken->work);
  if (status.code() == Code::Pending) return status;
  taken.free();
  work.id = 0;
  return status;
}

template <class Ask>
sinew_status end_reported(const char* function, sinew_work* work, Ask&& ask) noexcept {
  return guarded([&] { return report(end_work(function, require_pointer(function, "work", work), ask)); });
}

/// Errors: InvalidArgument if a handle occurs twice. The null handle may occur more than once.
void require_different(const char* function, std::span<const sinew_work> works) {
  std::vector<std::uint64_t> ids;
  for (const sinew_work& work : works) {
    if (work.id != 0) ids.push_back(work.id);
  }
  std::ranges::sort(ids);
  const auto twice = std::ranges::adjacent_find(ids);
  if (twice != ids.end())
    reject(function, fmt::format("works has the handle {:#x} twice, expected each work once", *twice));
}

/// Waits to the end as Work::get() does, which ends the communicator after the configured timeout.
Status wait_to_the_end(Work& work) {
  try {
    work.get();
    return {};
  } catch (const std::exception&) {
    return status_of_current_exception();
  }
}

/// Waits until the deadline, or as sinew_wait() does if there is none. sinew_wait() fails after SINEW_TIMEOUT, with an
/// error that names the ranks that have not come.
Status wait_until(Work& work, Deadline deadline) {
  return deadline.given() ? work.wait(deadline) : wait_to_the_end(work);
}

}  // namespace

extern "C" {

sinew_status sinew_wait(sinew_work* work) { return end_reported("sinew_wait", work, wait_to_the_end); }

sinew_status sinew_wait_for(sinew_work* work, double seconds) {
  return end_reported("sinew_wait_for", work,
                      [&](Work& w) { return wait_until(w, deadline_of("sinew_wait_for", "seconds", seconds)); });
}

sinew_status sinew_test(sinew_work* work) {
  return end_reported("sinew_test", work, [](Work& w) { return w.test() ? w.wait() : Status::pending(); });
}

sinew_status sinew_wait_source(sinew_work* work, double seconds, int* source) {
  const char* const function = "sinew_wait_source";
  return end_reported(function, work, [&](Work& w) {
    require_pointer(function, "source", source) = -1;
    Status status = wait_until(w, deadline_of(function, "seconds", seconds));
    if (status.ok()) *source = w.source();
    return status;
  });
}

sinew_status sinew_wait_all(sinew_work* works, size_t count, double seconds) {
  return guarded([&] {
    const char* const function = "sinew_wait_all";
    const Deadline deadline = deadline_of(function, "seconds", seconds);
    if (count != 0) require_pointer(function, "works", works);
    const std::span all(works, count);
    require_different(function, all);
    // All works stay until the last call has ended. Otherwise a failure would be gone when the caller waits again.
    for (const sinew_work& work : all) {
      if (work.id == 0 || !deadline.given()) continue;
      Taken<WorkEntry> taken(function, work.id);
      if (taken.in_child()) reject_child(function);
      if (taken->work.wait(deadline).code() == Code::Pending) return SINEW_PENDING;
    }
    Status first;
    for (sinew_work& work : all) {
      if (work.id == 0) continue;
      Status status = end_work(function, work, [&](Work& w) { return wait_until(w, deadline); });
      if (first.ok()) first = std::move(status);
    }
    return report(first);
  });
}

sinew_status sinew_work_done(sinew_work work, int* done) {
  return guarded([&] {
    const Use<WorkEntry> use("sinew_work_done", work.id);
    require_pointer("sinew_work_done", "done", done) = use->work.done() ? 1 : 0;
  });
}

sinew_status sinew_work_order(sinew_work work, sinew_stream stream, double seconds) {
  return guarded([&] {
    const Use<WorkEntry> use("sinew_work_order", work.id);
    const Deadline deadline = deadline_of("sinew_work_order", "seconds", seconds);
    return report(use->work.order({stream.stream, stream.device}, deadline));
  });
}

sinew_status sinew_work_then(sinew_work work, sinew_continuation run, void* context) {
  return guarded([&] {
    const Use<WorkEntry> use("sinew_work_then", work.id);
    if (run == nullptr) reject_pointer("sinew_work_then", "run");
    use->work.then([run, context](const Status& status) {
      run(status_of(status.code()), std::string(status.message()).c_str(), status.rank(), context);
    });
  });
}

sinew_status sinew_work_free(sinew_work* work) {
  return guarded([&] {
    Taken<WorkEntry> taken("sinew_work_free", require_pointer("sinew_work_free", "work", work).id);
    taken.free();
    work->id = 0;
  });
}

}  // extern "C"
