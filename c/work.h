/// Calls in flight of sinew's C API. Include <sinew.h>.
///
/// A function that starts a call takes a pointer to a work. If the pointer is null, the function waits for the end of
/// the call and returns its status. Otherwise it returns at once, and the work is waited for exactly once: by a
/// function that returns another status than SINEW_PENDING. That function frees the work and sets the handle to null.
/// Buffers belong to the call until then.
#pragma once

#include <sinew/c/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Waits for the end of the call and returns its status. After the configured timeout it ends the communicator with
/// SINEW_TIMEOUT. So no buffer is used any more when this function returns.
SINEW_C_API sinew_status sinew_wait(sinew_work* work);
/// Waits for at most `seconds`. Returns SINEW_PENDING if they pass first: the call goes on, and the work stays. At 0 or
/// below it waits as sinew_wait() does.
SINEW_C_API sinew_status sinew_wait_for(sinew_work* work, double seconds);
/// Makes progress without waiting. Returns SINEW_PENDING if the call has not ended.
SINEW_C_API sinew_status sinew_test(sinew_work* work);
/// Waits as sinew_wait_for() does for a receive. If the call has ended well, `*source` becomes the rank whose message
/// was received. It becomes -1 for other calls.
SINEW_C_API sinew_status sinew_wait_source(sinew_work* work, double seconds, int* source);
/// Waits for all calls. Passes over null handles. Returns the first failure in the order of the works. Returns
/// SINEW_PENDING if `seconds` pass first: then all works stay, also those that have ended. At 0 or below it waits for
/// each as sinew_wait() does.
/// Errors: SINEW_INVALID_ARGUMENT if a work is there twice.
SINEW_C_API sinew_status sinew_wait_all(sinew_work* works, size_t count, double seconds);

/// `*done` becomes 1 if the call has ended, otherwise 0. Makes no progress.
SINEW_C_API sinew_status sinew_work_done(sinew_work work, int* done);
/// Makes the stream wait for the call's result. If the call runs on the host, the host waits, for at most `seconds`, at
/// 0 or below for the configured timeout. Returns SINEW_PENDING if they pass first. The work stays, and must still be
/// waited for.
SINEW_C_API sinew_status sinew_work_order(sinew_work work, sinew_stream stream, double seconds);

/// Is told how a call has ended. `message` is empty for SINEW_OK and valid during the function. `rank` is as
/// sinew_last_error_rank() gives it.
typedef void (*sinew_continuation)(sinew_status status, const char* message, int rank, void* context);
/// Calls `run` once when the call has ended. If the call has ended already, `run` is called here. Otherwise a thread of
/// the World calls it, which may start calls and wait for them if the World is of SINEW_THREADS_MULTIPLE. The work
/// stays, and must still be waited for or freed.
SINEW_C_API sinew_status sinew_work_then(sinew_work work, sinew_continuation run, void* context);
/// Frees a work that nobody waits for. The call goes on, and the buffers belong to it until it has ended.
SINEW_C_API sinew_status sinew_work_free(sinew_work* work);

#ifdef __cplusplus
}
#endif
