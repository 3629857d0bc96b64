/// Communicators and plans of sinew's C API. Include <sinew.h>.
#pragma once

#include <sinew/c/types.h>

#ifdef __cplusplus
extern "C" {
#endif

SINEW_C_API sinew_status sinew_communicator_rank(sinew_communicator communicator, int* rank);
SINEW_C_API sinew_status sinew_communicator_size(sinew_communicator communicator, int* size);
/// Converts a rank of the communicator to its rank in the World.
SINEW_C_API sinew_status sinew_communicator_world_rank(sinew_communicator communicator, int rank, int* world_rank);
/// The name and size that errors show, such as "tp of 2". sinew_world_facts() tells how texts are returned.
SINEW_C_API sinew_status sinew_communicator_name(sinew_communicator communicator, char* text, size_t bytes,
                                                 size_t* needed);
/// The name of a rank in error messages: "rank 5", or "rank 5 (1 in tp)" if the two numbers differ.
SINEW_C_API sinew_status sinew_communicator_rank_text(sinew_communicator communicator, int rank, char* text,
                                                      size_t bytes, size_t* needed);

/// Makes a communicator of the ranks with the same `color`, in the order of `key`, then of rank. A rank whose color is
/// below 0 gets the null handle. All ranks of the communicator call it.
/// `name` has at most 47 characters and is equal on all ranks of the new communicator. Null: a name is made of the
/// color and of sinew_call_options.site.
SINEW_C_API sinew_status sinew_communicator_split(sinew_communicator communicator, int color, int key, const char* name,
                                                  const sinew_call_options* options, sinew_communicator* part);
/// Frees a communicator of sinew_communicator_split() or sinew_world_subgroup(). Waits for its calls in flight, whose
/// works may still be waited for.
SINEW_C_API sinew_status sinew_communicator_free(sinew_communicator* communicator);

/// Allocates `bytes` bytes of device memory on every rank, registered for calls of this communicator. All ranks call
/// it.
/// Lifetime: until sinew_memory_free(), and not longer than the World.
/// Errors:   SINEW_UNAVAILABLE on all ranks if one rank, which the message names, has no device.
SINEW_C_API sinew_status sinew_communicator_allocate(sinew_communicator communicator, size_t bytes,
                                                     const sinew_call_options* options, sinew_memory* memory);

/// Chooses the priority of the streams on which this communicator's calls run on its device. A call on a stream of
/// SINEW_PRIORITY_HIGH does not wait behind the blocks of a long call on a stream of SINEW_PRIORITY_NORMAL. Normal is
/// the default. Local: ranks may choose differently.
/// Errors: SINEW_INVALID_ARGUMENT if this communicator has made calls on device memory.
SINEW_C_API sinew_status sinew_communicator_set_stream_priority(sinew_communicator communicator,
                                                                sinew_stream_priority priority);

/// Ends the communicator's pending and later calls on all its ranks, with SINEW_ABORTED and this reason.
SINEW_C_API sinew_status sinew_communicator_abort(sinew_communicator communicator, const char* reason);
/// Ends the pending and later calls of this rank alone. Never waits.
SINEW_C_API sinew_status sinew_communicator_abort_here(sinew_communicator communicator, const char* reason);
/// Says in words why the oldest call that waits has not ended. Empty if no call waits.
SINEW_C_API sinew_status sinew_communicator_verdict(sinew_communicator communicator, char* text, size_t bytes,
                                                    size_t* needed);
/// The bytes of buffers that this rank holds for the communicator.
SINEW_C_API sinew_status sinew_communicator_memory_bytes(sinew_communicator communicator, size_t* bytes);

/// Gathers how long the calls so far took, for sinew_communicator_stats(). All ranks of the communicator call it.
/// Errors: SINEW_UNAVAILABLE on all ranks if one rank does not time its calls (SINEW_STATS=1).
SINEW_C_API sinew_status sinew_communicator_gather_stats(sinew_communicator communicator,
                                                         const sinew_call_options* options);
/// Returns what sinew_communicator_gather_stats() has gathered last, as JSON: {"clock_error_s", "calls":
/// [{"collective", "dtype", "bytes", "algorithm", "transport", "calls", "failed", "judged", "total_s", "time_median_s",
/// "busbw", "skew_median_s", "skew_worst_s", "last_rank", "last_calls", "predicted_s"}]}. Times are seconds, busbw
/// bytes per second.
/// Errors: SINEW_INVALID_ARGUMENT if nothing was gathered yet.
SINEW_C_API sinew_status sinew_communicator_stats(sinew_communicator communicator, char* text, size_t bytes,
                                                  size_t* needed);

/// A call that is to be planned. It is equal on all ranks. Members that are 0 count as not given.
typedef struct sinew_call_description {
  size_t struct_size;  ///< sizeof(sinew_call_description)
  sinew_collective collective;
  sinew_dtype dtype;
  sinew_op op;
  int root;
  /// Elements for each rank, as in the function of the collective.
  uint64_t count;
  const uint64_t* counts;         ///< all_gather_v and reduce_scatter_v: one count for each rank
  const uint64_t* displacements;  ///< where each part begins, in elements; null: one behind the other
  sinew_determinism determinism;
  sinew_codec codec;
  sinew_memory_kind memory_kind;
  int memory_device;
  size_t largest_bytes;  ///< v-forms with local counts: an upper bound of all buffers
  double pre_multiply;
  sinew_reduce_function reduce;
  const void* reduce_context;
  int separate;  ///< not 0: each part is a buffer of its own, as in the functions with lists
  int unused;    ///< 0
} sinew_call_description;

/// The initial value of a variable of type sinew_call_description: a barrier.
#define SINEW_CALL_DESCRIPTION_INIT                                                                   \
  {                                                                                                   \
    sizeof(sinew_call_description), SINEW_BARRIER, SINEW_U8, SINEW_SUM, 0, 0, NULL, NULL, SINEW_FAST, \
        SINEW_CODEC_NONE, SINEW_HOST, 0, 0, 0.0, NULL, NULL, 0, 0                                     \
  }

/// Plans a call without running it. Exchanges no messages.
SINEW_C_API sinew_status sinew_communicator_plan(sinew_communicator communicator,
                                                 const sinew_call_description* description, sinew_plan* plan);
/// The chosen way, the others with their predicted times, and the rejected ones with their reasons.
SINEW_C_API sinew_status sinew_plan_explain(sinew_plan plan, char* text, size_t bytes, size_t* needed);
SINEW_C_API sinew_status sinew_plan_json(sinew_plan plan, char* text, size_t bytes, size_t* needed);
SINEW_C_API sinew_status sinew_plan_free(sinew_plan* plan);

#ifdef __cplusplus
}
#endif
