#pragma once

#include <filesystem>
#include <string>

namespace sinew::tools {

/// Returns the file of the module through which the ranks call another library.
/// which: "mpi", or the prefix of an MPI.
///   mpi     that of the MPI whose mpirun started this process, of those that this program was built with
///   PREFIX  that of PREFIX/include/mpi.h and PREFIX/lib/libmpi.so. The first call compiles it, and the ranks of a host
///           wait for that. It is kept in the folder of caches until the MPI or this program changes.
/// Errors: InvalidArgument if no mpirun started this process, or the prefix has no MPI, with the files that were looked
///         for. Unavailable if the compiler cannot be run, or fails, with its first line.
/// Cost:   the first call for a prefix takes a second or two.
std::filesystem::path peer_module(const std::string& which);

}  // namespace sinew::tools
