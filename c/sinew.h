/// The C API of sinew: a communication layer for distributed training. C11 and C++ can include this header.
///
///   sinew_world world;
///   sinew_communicator all;
///   sinew_world_from_environment(NULL, &world);
///   sinew_world_communicator(world, &all);
///   sinew_all_reduce(all, numbers, numbers, count, SINEW_F32, SINEW_SUM, NULL, NULL);
///   sinew_world_free(&world);
///
/// Errors:   every function that can fail returns a sinew_status. If the status is neither SINEW_OK nor SINEW_PENDING,
///           sinew_last_error_message() has a sentence for people, and sinew_last_error_rank() the rank that it is
///           about. A bad argument gives SINEW_INVALID_ARGUMENT, and the function has then done nothing.
/// Handles:  World, communicator, plan, memory and work are numbers, and 0 is the null handle. The library refuses a
///           handle whose object was freed. Functions that free an object take a pointer, and set the handle to null.
/// Buffers:  the library cannot see how long a buffer is. The caller makes sure that a buffer has the bytes that its
///           count promises.
/// Threads:  MPI has four thread levels, and sinew has two.
///           - SINEW_THREADS_SINGLE is MPI_THREAD_SERIALIZED: any thread may use the World and its objects, one at a
///             time. A second thread gets SINEW_INVALID_ARGUMENT.
///           - SINEW_THREADS_MULTIPLE is MPI_THREAD_MULTIPLE: any number of threads may use the World at the same time,
///             each with a communicator of its own. One work handle is used by one thread at a time. An object is not
///             freed while another thread uses it.
/// Forks:    a child of fork cannot use the Worlds of its parent. It gets SINEW_INVALID_ARGUMENT, and may free them.
/// ABI:      functions and structs of version node SINEW_0 stay as they are in all libraries with the SONAME
///           libsinew.so.0. Enumerations may get new values, and option structs new members at their end.
#pragma once

#include <sinew/c/calls.h>
#include <sinew/c/communicator.h>
#include <sinew/c/types.h>
#include <sinew/c/work.h>
#include <sinew/c/world.h>
