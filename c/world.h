/// Worlds of sinew's C API. Include <sinew.h>.
#pragma once

#include <sinew/c/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/// The options of a World. A pointer to options may be null.
typedef struct sinew_world_options {
  size_t struct_size;     ///< sizeof(sinew_world_options)
  sinew_threads threads;  ///< the number of threads that use the World
  int device;             ///< this rank's accelerator; below 0: the rank's number on its host, modulo the devices
  int count_sent;         ///< not 0: count the bytes that sinew_world_sent_bytes() returns
  int unused;             ///< 0
  const void* secret;     ///< the job's secret, by which connections authenticate
  size_t secret_bytes;    ///< at most 1 MiB; 0: the launcher's secret, or none if all ranks are on one host
  /// Settings such as "SINEW_TIMEOUT=30s". They overrule the variables of the environment with the same names.
  const char* const* config;
  size_t config_count;
} sinew_world_options;

/// The initial value of a variable of type sinew_world_options.
#define SINEW_WORLD_OPTIONS_INIT \
  { sizeof(sinew_world_options), SINEW_THREADS_SINGLE, -1, 0, 0, NULL, 0, NULL, 0 }

/// Takes what an exchange has gathered.
typedef struct sinew_gathered sinew_gathered;

/// The means by which a World starts: the rank's number, the number of ranks, and one collective operation.
typedef struct sinew_exchange {
  size_t struct_size;  ///< sizeof(sinew_exchange)
  int rank;
  int size;
  /// Gathers the `bytes` bytes at `mine` from all ranks, and passes the bytes of each rank to sinew_gathered_put(). The
  /// lengths may differ between ranks. All ranks call it the same number of times, and only while a World starts. If it
  /// returns another status than SINEW_OK, the World is not made.
  sinew_status (*all_gather)(void* context, const void* mine, size_t bytes, sinew_gathered* all);
  void* context;
} sinew_exchange;

/// Copies the bytes of one rank. To be called inside sinew_exchange.all_gather, once for each rank.
/// Errors: SINEW_INVALID_ARGUMENT for a rank that is not one of the exchange.
SINEW_C_API sinew_status sinew_gathered_put(sinew_gathered* all, int rank, const void* bytes, size_t count);

/// Makes the World of the job to which this process belongs. The launcher is mpirun (Open MPI, MPICH), srun, torchrun
/// or sinew-run, or the variables RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are set. Without a launcher the World
/// has one rank.
/// Errors: SINEW_INVALID_ARGUMENT for a wrong variable or option. SINEW_UNAVAILABLE if the other ranks cannot be
///         reached. SINEW_TIMEOUT with the ranks that did not come.
SINEW_C_API sinew_status sinew_world_from_environment(const sinew_world_options* options, sinew_world* world);
/// Makes a World from any exchange.
/// Errors: those of sinew_world_from_environment(), and the status of the exchange.
SINEW_C_API sinew_status sinew_world_create(const sinew_exchange* exchange, const sinew_world_options* options,
                                            sinew_world* world);
/// Ends the World. Frees the communicators, plans and works that were made from it, and memory of
/// sinew_communicator_allocate(). Waits for the calls in flight of each communicator, for SINEW_TIMEOUT at most. Those
/// that are in flight then end with SINEW_ABORTED. Memory of sinew_world_allocate() stays valid.
/// Errors: SINEW_INVALID_ARGUMENT if another thread uses the World or an object that was made from it.
SINEW_C_API sinew_status sinew_world_free(sinew_world* world);

SINEW_C_API sinew_status sinew_world_rank(sinew_world world, int* rank);
SINEW_C_API sinew_status sinew_world_size(sinew_world world, int* size);
/// The communicator of all ranks. It is the same handle each time, and sinew_world_free() frees it.
SINEW_C_API sinew_status sinew_world_communicator(sinew_world world, sinew_communicator* communicator);

/// The state of a transport on this rank. The texts are valid as long as the World.
typedef struct sinew_transport {
  size_t struct_size;      ///< sizeof(sinew_transport), which the caller sets
  const char* name;        ///< such as "shm" or "tcp"
  int ok;                  ///< not 0 if the transport can be used
  const char* reason;      ///< if not ok, why; otherwise the NIC by which its messages leave the host
  const char* no_device;   ///< why messages of device memory go through the host
  const char* offload;     ///< why it has no offload; empty: it has one
  const char* left_alone;  ///< why a World uses it only when it is asked for by name; empty: it does not need that
} sinew_transport;
/// The number of transports, and one of them. `index` is below that number.
SINEW_C_API sinew_status sinew_world_transport_count(sinew_world world, size_t* count);
SINEW_C_API sinew_status sinew_world_transport(sinew_world world, size_t index, sinew_transport* transport);

/// The facts that the selector uses, as text, with the source of each number.
/// Text:   functions that return a text write at most `bytes` bytes into `text`, and always end it with a zero byte. A
///         longer text is cut. `*needed` becomes the bytes of the whole text with its zero byte. `needed` may be null.
///         With `bytes` 0 `text` may be null.
SINEW_C_API sinew_status sinew_world_facts(sinew_world world, char* text, size_t bytes, size_t* needed);
/// Writes the bytes of messages that this rank has posted for each rank. `count` is the number of ranks.
/// Errors: SINEW_UNAVAILABLE without sinew_world_options.count_sent.
SINEW_C_API sinew_status sinew_world_sent_bytes(sinew_world world, uint64_t* bytes, size_t count);

/// SINEW_OK if this rank knows of no failure. SINEW_PEER_LOST tells the first rank that was lost, SINEW_ABORTED why the
/// World has ended.
SINEW_C_API sinew_status sinew_world_status(sinew_world world);
/// Ends the World on all ranks: pending and later calls end with SINEW_ABORTED and this reason.
SINEW_C_API sinew_status sinew_world_abort(sinew_world world, const char* reason);
/// Makes the next World, of the ranks that are left after a failure. All of them must call it. The calls of the old
/// World end, and the old World may only be freed.
/// Errors: SINEW_TIMEOUT with the ranks that did not come, and those of sinew_world_create().
SINEW_C_API sinew_status sinew_world_shrink(sinew_world world, sinew_world* next);

/// A file descriptor that is readable when sinew_world_poll() has something to do. The World closes it.
SINEW_C_API sinew_status sinew_world_descriptor(sinew_world world, int* descriptor);
/// Makes progress without blocking. `*events` becomes the number of events that it handled, and may be null.
SINEW_C_API sinew_status sinew_world_poll(sinew_world world, int* events);

/// Makes a communicator of `count` ranks of this World. Only these ranks call it, with the same ranks in the same order
/// and the same name. A rank's number in the communicator is its place in the list.
/// `seconds`: how long to wait for the other members. At 0 or below, the configured timeout applies.
/// Errors: SINEW_TIMEOUT with a member that did not come. The World goes on. The members must then choose another name.
SINEW_C_API sinew_status sinew_world_subgroup(sinew_world world, const int* ranks, size_t count, const char* name,
                                              double seconds, sinew_communicator* communicator);

/// Allocates zeroed host memory, in shared memory if a transport can use that. `huge_pages` not 0 asks for huge pages.
/// Lifetime: until sinew_memory_free(). It may outlive the World.
SINEW_C_API sinew_status sinew_world_allocate(sinew_world world, size_t bytes, int huge_pages, sinew_memory* memory);
/// The address and the bytes of the memory. Both pointers may be null.
SINEW_C_API sinew_status sinew_memory_get(sinew_memory memory, void** data, size_t* bytes);
/// Says how the memory is registered, such as "shared memory of shm".
SINEW_C_API sinew_status sinew_memory_known_as(sinew_memory memory, char* text, size_t bytes, size_t* needed);
/// Frees the memory. Calls that use it must have ended.
SINEW_C_API sinew_status sinew_memory_free(sinew_memory* memory);

#ifdef __cplusplus
}
#endif
