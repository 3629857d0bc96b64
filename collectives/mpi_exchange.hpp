#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include <mpi.h>

#include <sinew/core/base/exchange.hpp>
#include <sinew/core/error.hpp>

namespace sinew {

/// Makes an exchange among the ranks of an MPI communicator, for programs that have called MPI_Init. All these ranks
/// call World::create with it. This header has no source, so it is compiled with the program's MPI.
/// Lifetime: the communicator is used only inside World::create.
/// Errors:   Error{System} with MPI's text, if MPI's error handler returns.
inline Exchange mpi_exchange(MPI_Comm communicator) {
  const auto require = [](int code, const char* what) {
    if (code == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING] = {};
    int length = 0;
    MPI_Error_string(code, text, &length);
    throw Error(Code::System, std::string(what) + ": " + text);
  };
  Exchange exchange;
  require(MPI_Comm_rank(communicator, &exchange.rank), "MPI_Comm_rank");
  require(MPI_Comm_size(communicator, &exchange.size), "MPI_Comm_size");
  exchange.all_gather = [communicator, require, ranks = exchange.size](const Bytes& mine) {
    const auto count = static_cast<std::size_t>(ranks);
    if (mine.size() > static_cast<std::size_t>(std::numeric_limits<int>::max()) / count) {
      throw Error(Code::InvalidArgument,
                  "mpi_exchange: " + std::to_string(mine.size()) + " bytes of a rank: more than MPI counts");
    }
    const int bytes = static_cast<int>(mine.size());
    std::vector<int> counts(count);
    require(MPI_Allgather(&bytes, 1, MPI_INT, counts.data(), 1, MPI_INT, communicator), "MPI_Allgather");
    std::vector<int> offsets(count);
    int total = 0;
    for (std::size_t r = 0; r < count; ++r) {
      offsets[r] = total;
      if (counts[r] > std::numeric_limits<int>::max() - total) {
        throw Error(Code::InvalidArgument, "mpi_exchange: the bytes of ranks 0 to " + std::to_string(r) +
                                               " are more than MPI counts (" +
                                               std::to_string(std::numeric_limits<int>::max()) + ")");
      }
      total += counts[r];
    }
    Bytes together(static_cast<std::size_t>(total));
    require(MPI_Allgatherv(mine.data(), bytes, MPI_BYTE, together.data(), counts.data(), offsets.data(), MPI_BYTE,
                           communicator),
            "MPI_Allgatherv");
    std::vector<Bytes> all;
    for (std::size_t r = 0; r < count; ++r) {
      const auto first = together.begin() + offsets[r];
      all.emplace_back(first, first + counts[r]);
    }
    return all;
  };
  return exchange;
}

}  // namespace sinew
