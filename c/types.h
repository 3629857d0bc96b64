/// Types of sinew's C API: codes, handles, and options of calls. Include <sinew.h>.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#define SINEW_INT_ENUM : int
#else
#define SINEW_INT_ENUM
#endif
#define SINEW_C_API __attribute__((visibility("default")))

/// The outcome of a function.
typedef enum sinew_status SINEW_INT_ENUM {
  SINEW_OK = 0,
  SINEW_PENDING = 1,           ///< the call has not ended; nothing has failed
  SINEW_INVALID_ARGUMENT = 2,  ///< the caller's mistake; the message says what was found and what was expected
  SINEW_UNAVAILABLE = 3,       ///< it cannot be had on this machine or in this build
  SINEW_TRUNCATED = 4,         ///< a message was longer than the buffer of its receive
  SINEW_CANCELLED = 5,         ///< a message was taken back before it was delivered
  SINEW_TIMEOUT = 6,           ///< a deadline passed; the message names who did not come
  SINEW_PEER_LOST = 7,         ///< a process of the job is gone
  SINEW_MISMATCH = 8,          ///< ranks made different calls; the message shows both
  SINEW_ABORTED = 9,           ///< somebody ended the communicator or the World; the message is the first reason
  SINEW_SYSTEM = 10            ///< the operating system refused
} sinew_status;

/// Types of elements. An element of SINEW_BOOL is a byte that is 0 or 1.
typedef enum sinew_dtype SINEW_INT_ENUM {
  SINEW_I8 = 0,
  SINEW_U8 = 1,
  SINEW_I32 = 2,
  SINEW_U32 = 3,
  SINEW_I64 = 4,
  SINEW_U64 = 5,
  SINEW_F16 = 6,
  SINEW_BF16 = 7,
  SINEW_F32 = 8,
  SINEW_F64 = 9,
  SINEW_F8E4M3 = 10,
  SINEW_F8E5M2 = 11,
  SINEW_BOOL = 12,
  SINEW_I16 = 13,
  SINEW_U16 = 14
} sinew_dtype;

/// The operators that combine contributions.
typedef enum sinew_op SINEW_INT_ENUM {
  SINEW_SUM = 0,
  SINEW_PRODUCT = 1,
  SINEW_MIN = 2,
  SINEW_MAX = 3,
  SINEW_AVERAGE = 4,    ///< the sum divided by the number of ranks; averages of integers are truncated
  SINEW_PREMULSUM = 5,  ///< the sum of contributions that are multiplied by sinew_call_options.pre_multiply
  SINEW_BIT_AND = 6,
  SINEW_BIT_OR = 7,
  SINEW_BIT_XOR = 8,
  SINEW_USER = 9  ///< the function sinew_call_options.reduce
} sinew_op;

/// The collectives and messages, for sinew_call_description.
typedef enum sinew_collective SINEW_INT_ENUM {
  SINEW_ALL_REDUCE = 0,
  SINEW_ALL_GATHER = 1,
  SINEW_ALL_GATHER_V = 2,
  SINEW_REDUCE_SCATTER = 3,
  SINEW_REDUCE_SCATTER_V = 4,
  SINEW_ALL_TO_ALL = 5,
  SINEW_ALL_TO_ALL_V = 6,
  SINEW_BROADCAST = 7,
  SINEW_REDUCE = 8,
  SINEW_GATHER = 9,
  SINEW_GATHER_V = 10,
  SINEW_SCATTER = 11,
  SINEW_SCATTER_V = 12,
  SINEW_BARRIER = 13,
  SINEW_SEND = 14,
  SINEW_RECV = 15,
  SINEW_SENDRECV = 16
} sinew_collective;

/// The condition under which results have the same bits.
typedef enum sinew_determinism SINEW_INT_ENUM {
  SINEW_FAST = 0,
  SINEW_REPRODUCIBLE = 1,     ///< for every algorithm, transport and message size
  SINEW_LAYOUT_INVARIANT = 2  ///< also on 1, 2, 4 and 8 ranks
} sinew_determinism;

/// The encoding of f32 elements in messages of sums and gathers.
typedef enum sinew_codec SINEW_INT_ENUM {
  SINEW_CODEC_NONE = 0,
  SINEW_CODEC_BF16 = 1,
  SINEW_CODEC_INT8 = 2,
  SINEW_CODEC_F16 = 3,
  SINEW_CODEC_F8E4M3 = 4  ///< floats of 8 bits in blocks of 256 with one f32 scale
} sinew_codec;

/// Where memory lies.
typedef enum sinew_memory_kind SINEW_INT_ENUM {
  SINEW_HOST = 0,
  SINEW_PINNED_HOST = 1,
  SINEW_DEVICE = 2
} sinew_memory_kind;

/// The priority of the streams on which a communicator's calls run on its device.
typedef enum sinew_stream_priority SINEW_INT_ENUM {
  SINEW_PRIORITY_NORMAL = 0,
  SINEW_PRIORITY_HIGH = 1
} sinew_stream_priority;

/// The number of threads that use a World at the same time; <sinew.h> says more.
typedef enum sinew_threads SINEW_INT_ENUM { SINEW_THREADS_SINGLE = 0, SINEW_THREADS_MULTIPLE = 1 } sinew_threads;

/// All ranks of a job.
typedef struct sinew_world {
  uint64_t id;
} sinew_world;
/// A group of ranks that communicate.
typedef struct sinew_communicator {
  uint64_t id;
} sinew_communicator;
/// A call that is planned once and run many times.
typedef struct sinew_plan {
  uint64_t id;
} sinew_plan;
/// Registered memory, which transports use without copies.
typedef struct sinew_memory {
  uint64_t id;
} sinew_memory;
/// A call in flight.
typedef struct sinew_work {
  uint64_t id;
} sinew_work;

/// A stream of a device, such as a cudaStream_t.
typedef struct sinew_stream {
  void* stream;
  int device;
} sinew_stream;

/// Combines `count` elements: result[i] = a[i] (op) b[i]. `result` may be `a` or `b`. The operator must be associative
/// and commutative. The library may divide the data of a call between any two elements. So each element is combined by
/// itself: a pair of elements, such as a value and its place, may come in two parts.
/// Thread: the thread that makes progress calls it. It must not call any function of this library.
typedef void (*sinew_reduce_function)(void* result, const void* a, const void* b, size_t count, const void* context);

/// The source line where the macro stands, such as "train.c:12".
#define SINEW_TEXT_OF_(x) #x
#define SINEW_TEXT_OF(x) SINEW_TEXT_OF_(x)
#define SINEW_HERE __FILE__ ":" SINEW_TEXT_OF(__LINE__)

/// Optional arguments of a call. A pointer to options may be null. Members that are 0 count as not given.
typedef struct sinew_call_options {
  size_t struct_size;  ///< sizeof(sinew_call_options)
  /// The source line that errors of all ranks show. Lifetime: valid until the call has ended, such as a string literal.
  const char* site;
  /// The purpose of the call, such as "bucket 3". Errors show it behind the source line. It is copied if `site` is
  /// given, too. Otherwise it must stay valid until the call has ended.
  const char* label;
  /// Seconds, above 0. If they pass before the call ends, the communicator ends with SINEW_TIMEOUT on all its ranks.
  /// At 0 or below, SINEW_TIMEOUT of the environment or of sinew_world_options.config applies.
  double deadline_s;
  sinew_determinism determinism;
  sinew_codec codec;  ///< equal on all ranks
  /// For v-forms with local counts: an upper bound of the bytes of all buffers, equal on all ranks.
  size_t largest_bytes;
  double pre_multiply;            ///< the factor of SINEW_PREMULSUM
  sinew_reduce_function reduce;   ///< the function of SINEW_USER, equal on all ranks
  const void* reduce_context;     ///< passed to `reduce`; valid until the call has ended
  sinew_memory_kind memory_kind;  ///< where the buffers of the call lie
  int memory_device;              ///< the device's number, if they lie on a device or are pinned for it
  const sinew_stream* after;      ///< with device buffers, the call starts after the work that this stream holds now
} sinew_call_options;

/// The initial value of a variable of type sinew_call_options. It records the line where the macro stands.
#define SINEW_CALL_OPTIONS_INIT                                                                                      \
  {                                                                                                                  \
    sizeof(sinew_call_options), SINEW_HERE, NULL, 0.0, SINEW_FAST, SINEW_CODEC_NONE, 0, 0.0, NULL, NULL, SINEW_HOST, \
        0, NULL                                                                                                      \
  }
#ifndef __cplusplus
/// A pointer to options for one call, such as SINEW_OPTIONS(.deadline_s = 3, .label = "loss").
#define SINEW_OPTIONS(...) \
  (&(const sinew_call_options){.struct_size = sizeof(sinew_call_options), .site = SINEW_HERE, __VA_ARGS__})
#endif

/// A send or a receive of sinew_group.
typedef struct sinew_message {
  int sends;     ///< not 0: a send; 0: a receive
  int peer;      ///< a rank in the communicator
  void* memory;  ///< a send only reads it
  size_t bytes;
  uint32_t tag;
  sinew_memory_kind memory_kind;
  int memory_device;
  uint32_t unused;  ///< 0
} sinew_message;

/// The name of a status, such as "InvalidArgument". "?" for other numbers.
SINEW_C_API const char* sinew_status_name(sinew_status status);
/// The names of a type, an operator and a collective, such as "f32", "sum" and "all_gather_v". "?" for other numbers.
SINEW_C_API const char* sinew_dtype_name(sinew_dtype dtype);
SINEW_C_API const char* sinew_op_name(sinew_op op);
SINEW_C_API const char* sinew_collective_name(sinew_collective collective);
/// The bytes of an element, or 0 for a number that is no type.
SINEW_C_API size_t sinew_dtype_size(sinew_dtype dtype);

/// One sentence about the last failure of the calling thread. Empty if no function of this thread has failed.
/// Lifetime: until the next function of this thread fails.
SINEW_C_API const char* sinew_last_error_message(void);
/// The status and the rank of that failure. The rank is one of the communicator concerned. It is -1 if the failure is
/// about no rank.
SINEW_C_API sinew_status sinew_last_error_status(void);
SINEW_C_API int sinew_last_error_rank(void);

/// The version of the library that was loaded, as "major.minor.patch".
SINEW_C_API const char* sinew_version(void);

#ifdef __cplusplus
}
#endif
