#pragma once

#include <filesystem>
#include <string>

namespace sinew::tools {

/// Returns the file of the module through which the ranks call another library.
/// which: "mpi", the prefix of an MPI or of oneCCL, or a folder with DeepSpeed.
///   mpi     The MPI is the one whose mpirun started this process. Its module was built with this program.
///   PREFIX  The MPI has the files PREFIX/include/mpi.h and PREFIX/lib/libmpi.so. The first call compiles its module,
///           while the other ranks of the host wait. The module stays in the folder of caches until the library or
///           this program changes. oneCCL is that for CPUs, with Intel MPI in the same prefix. DeepSpeed has the file
///           csrc/cpu/comm/shm.cpp in PREFIX, or is installed there as a Python package.
/// Errors: InvalidArgument if no mpirun started this process, or if the prefix has neither. The text names the files
///         that were looked for. Unavailable if the compiler cannot be run, or fails, with its first line.
/// Cost:   the first call for a prefix takes a second or two.
std::filesystem::path peer_module(const std::string& which);

}  // namespace sinew::tools
