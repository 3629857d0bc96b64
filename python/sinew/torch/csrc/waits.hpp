#pragma once

#include <c10/util/SmallVector.h>

#include <sinew/core/call/call_options.hpp>
#include <sinew/core/deadline.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/work.hpp>

namespace sinew::torch_backend {

/// The calls of sinew that one call of c10d is made of: one as a rule, several for the coalesced forms.
using WorkList = c10::SmallVector<Work, 1>;

/// Waits until all Works have ended and returns the first failure, or Pending if `until` passes first.
/// Python's signal handlers run meanwhile, first after 100 ms, so that a short wait does not pay for them.
/// After 200 ms the calls get the name of the line of Python that waits.
/// `now` is the time of the call, as its caller has read the clock already. `began_here`: as SlowWait takes it.
/// `stream`: if it is a device's, the stream is made to wait instead of the host. The result is Ok as soon as it waits.
/// Errors: the exception of a signal handler; the Works go on.
Status wait_for(WorkList& works, Clock::time_point now, Deadline until, bool began_here = false, StreamRef stream = {});

}  // namespace sinew::torch_backend
