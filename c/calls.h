/// Collectives and messages of sinew's C API. Include <sinew.h>.
///
/// Units:    counts and displacements are elements of the dtype. `bytes` are bytes.
/// Order:    all ranks call the same collectives of a communicator in the same order.
/// In place: both buffers are the same pointer. For all_gather and gather, `in` is this rank's block of `out` instead.
///           For reduce_scatter and scatter, `out` is this rank's block of `in`. Otherwise the buffers are disjoint.
/// Root:     only the root has the `out` of reduce and gather, and the `in` of scatter. Other ranks may pass null.
/// Work:     null: the function waits for the end of the call. Otherwise see <sinew/c/work.h>.
/// Errors:   SINEW_INVALID_ARGUMENT for bad arguments. Later failures are the status of the call: SINEW_MISMATCH,
///           SINEW_PEER_LOST, SINEW_TIMEOUT, SINEW_ABORTED.
#pragma once

#include <sinew/c/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Combines `count` elements of all ranks into `out` on every rank.
SINEW_C_API sinew_status sinew_all_reduce(sinew_communicator communicator, const void* in, void* out, size_t count,
                                          sinew_dtype dtype, sinew_op op, const sinew_call_options* options,
                                          sinew_work* work);
/// Puts the `count` elements of each rank into `out` of every rank, which has size * count elements.
SINEW_C_API sinew_status sinew_all_gather(sinew_communicator communicator, const void* in, void* out, size_t count,
                                          sinew_dtype dtype, const sinew_call_options* options, sinew_work* work);
/// Combines `in`, which has size * count elements, of all ranks. Puts block r of the result into `out` of rank r.
SINEW_C_API sinew_status sinew_reduce_scatter(sinew_communicator communicator, const void* in, void* out, size_t count,
                                              sinew_dtype dtype, sinew_op op, const sinew_call_options* options,
                                              sinew_work* work);
/// Sends block j of `in` to rank j, and puts the block from rank i into block i of `out`. Blocks have `count` elements.
SINEW_C_API sinew_status sinew_all_to_all(sinew_communicator communicator, const void* in, void* out, size_t count,
                                          sinew_dtype dtype, const sinew_call_options* options, sinew_work* work);
/// Copies `count` elements of the root into `data` of all other ranks.
SINEW_C_API sinew_status sinew_broadcast(sinew_communicator communicator, void* data, size_t count, sinew_dtype dtype,
                                         int root, const sinew_call_options* options, sinew_work* work);
/// Combines `count` elements of all ranks into `out` of the root.
SINEW_C_API sinew_status sinew_reduce(sinew_communicator communicator, const void* in, void* out, size_t count,
                                      sinew_dtype dtype, sinew_op op, int root, const sinew_call_options* options,
                                      sinew_work* work);
/// Puts the `count` elements of each rank into `out` of the root, which has size * count elements.
SINEW_C_API sinew_status sinew_gather(sinew_communicator communicator, const void* in, void* out, size_t count,
                                      sinew_dtype dtype, int root, const sinew_call_options* options, sinew_work* work);
/// Puts block r of the root's `in`, which has size * count elements, into `out` of rank r.
SINEW_C_API sinew_status sinew_scatter(sinew_communicator communicator, const void* in, void* out, size_t count,
                                       sinew_dtype dtype, int root, const sinew_call_options* options,
                                       sinew_work* work);
/// Ends when all ranks have called it.
SINEW_C_API sinew_status sinew_barrier(sinew_communicator communicator, const sinew_call_options* options,
                                       sinew_work* work);

// The v-forms: parts differ in length. Counts have one entry for each rank. So have displacements, which say where each
// part begins; if they are null, the parts lie one behind the other. Received parts must not overlap.

/// `out_counts` are equal on all ranks. `in` has the elements of this rank's count.
SINEW_C_API sinew_status sinew_all_gather_v(sinew_communicator communicator, const void* in, void* out,
                                            const uint64_t* out_counts, const uint64_t* out_displacements,
                                            sinew_dtype dtype, const sinew_call_options* options, sinew_work* work);
/// `in_counts` are equal on all ranks. `out` has the elements of this rank's count.
SINEW_C_API sinew_status sinew_reduce_scatter_v(sinew_communicator communicator, const void* in, void* out,
                                                const uint64_t* in_counts, const uint64_t* in_displacements,
                                                sinew_dtype dtype, sinew_op op, const sinew_call_options* options,
                                                sinew_work* work);
/// Counts are this rank's own. In place, the parts of both sides are equal.
/// Errors: SINEW_MISMATCH if a rank sends another count than its peer expects.
SINEW_C_API sinew_status sinew_all_to_all_v(sinew_communicator communicator, const void* in, const uint64_t* in_counts,
                                            const uint64_t* in_displacements, void* out, const uint64_t* out_counts,
                                            const uint64_t* out_displacements, sinew_dtype dtype,
                                            const sinew_call_options* options, sinew_work* work);
/// `in_count` is this rank's own. Only the root passes `out`, `out_counts` and `out_displacements`.
SINEW_C_API sinew_status sinew_gather_v(sinew_communicator communicator, const void* in, size_t in_count, void* out,
                                        const uint64_t* out_counts, const uint64_t* out_displacements,
                                        sinew_dtype dtype, int root, const sinew_call_options* options,
                                        sinew_work* work);
/// `out_count` is this rank's own. Only the root passes `in`, `in_counts` and `in_displacements`.
SINEW_C_API sinew_status sinew_scatter_v(sinew_communicator communicator, const void* in, const uint64_t* in_counts,
                                         const uint64_t* in_displacements, void* out, size_t out_count,
                                         sinew_dtype dtype, int root, const sinew_call_options* options,
                                         sinew_work* work);

// The forms with lists: a buffer of its own for each rank, in the order of the ranks. Lists and counts have one entry
// for each rank. Buffers are host memory, and their addresses differ by multiples of an element. If one rank calls the
// form with lists, all ranks must call it.

/// Puts `in` of rank r into outs[r]. counts[r] is the length of rank r's buffers, equal on all ranks.
SINEW_C_API sinew_status sinew_all_gather_list(sinew_communicator communicator, const void* in, void* const* outs,
                                               const uint64_t* counts, sinew_dtype dtype,
                                               const sinew_call_options* options, sinew_work* work);
/// Combines ins[r] of all ranks into `out` of rank r. counts[r] is the length of rank r's buffers, equal on all ranks.
SINEW_C_API sinew_status sinew_reduce_scatter_list(sinew_communicator communicator, const void* const* ins, void* out,
                                                   const uint64_t* counts, sinew_dtype dtype, sinew_op op,
                                                   const sinew_call_options* options, sinew_work* work);
/// Sends ins[r] to rank r and puts the data from rank r into outs[r].
SINEW_C_API sinew_status sinew_all_to_all_list(sinew_communicator communicator, const void* const* ins,
                                               const uint64_t* in_counts, void* const* outs, const uint64_t* out_counts,
                                               sinew_dtype dtype, const sinew_call_options* options, sinew_work* work);
/// Puts `in` of rank r into outs[r] of the root. Only the root passes `outs` and `out_counts`.
SINEW_C_API sinew_status sinew_gather_list(sinew_communicator communicator, const void* in, size_t in_count,
                                           void* const* outs, const uint64_t* out_counts, sinew_dtype dtype, int root,
                                           const sinew_call_options* options, sinew_work* work);
/// Sends ins[r] of the root to `out` of rank r. Only the root passes `ins` and `in_counts`.
SINEW_C_API sinew_status sinew_scatter_list(sinew_communicator communicator, const void* const* ins,
                                            const uint64_t* in_counts, void* out, size_t out_count, sinew_dtype dtype,
                                            int root, const sinew_call_options* options, sinew_work* work);

/// Sends a message. Messages of a pair of ranks with the same tag are received in the order of the sends. The call ends
/// when the buffer may be used again. A long message ends only when it is received, as in MPI_Send: ranks that send to
/// each other before they receive wait until the deadline. sinew_sendrecv() and sinew_group() do not.
SINEW_C_API sinew_status sinew_send(sinew_communicator communicator, const void* from, size_t bytes, int to_rank,
                                    uint32_t tag, const sinew_call_options* options, sinew_work* work);
/// Receives a message.
/// Errors: SINEW_TRUNCATED if the message is longer than the buffer.
SINEW_C_API sinew_status sinew_recv(sinew_communicator communicator, void* to, size_t bytes, int from_rank,
                                    uint32_t tag, const sinew_call_options* options, sinew_work* work);
/// Receives the next message with this tag from any rank. Without a work, `*source` becomes that rank. With a work,
/// `source` must be null, and sinew_wait_source() tells the rank.
SINEW_C_API sinew_status sinew_recv_any(sinew_communicator communicator, void* to, size_t bytes, uint32_t tag,
                                        int* source, const sinew_call_options* options, sinew_work* work);
/// Sends a message and receives another one at the same time. Cannot deadlock.
SINEW_C_API sinew_status sinew_sendrecv(sinew_communicator communicator, const void* from, size_t from_bytes,
                                        int to_rank, uint32_t send_tag, void* to, size_t to_bytes, int from_rank,
                                        uint32_t recv_tag, const sinew_call_options* options, sinew_work* work);
/// Starts several sends and receives together. Ends when all have ended, with the first failure.
SINEW_C_API sinew_status sinew_group(sinew_communicator communicator, const sinew_message* messages, size_t count,
                                     const sinew_call_options* options, sinew_work* work);

/// Makes the call that the plan describes. The buffers have the lengths of the plan. A broadcast takes `out` alone.
SINEW_C_API sinew_status sinew_run(sinew_communicator communicator, sinew_plan plan, const void* in, void* out,
                                   const sinew_call_options* options, sinew_work* work);

#ifdef __cplusplus
}
#endif
