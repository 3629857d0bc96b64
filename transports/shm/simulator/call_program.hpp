#pragma once

#include <cstdint>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/transports/shm/model/call_costs.hpp>

/// A simulator of calls over shared memory. It runs what each protocol makes the ranks do, line by line, on a host with
/// the costs of the model. It shares no formula with the prediction.
namespace sinew::shm {

/// One thing that a rank does in a call.
struct RankStep {
  enum class Kind : std::uint8_t {
    Work,  ///< runs for `amount` seconds, in its own caches
    Post,  ///< writes the line, which other ranks wait for
    Look,  ///< waits for the line, and reads it with `amount` bytes in the lines behind it
    Read,  ///< reads `amount` bytes of the rank `of`
  };
  Kind kind = Kind::Work;
  int of = 0;  ///< Post and Look: the number of the line; Read: the rank
  double amount = 0;
};

/// Steps of one rank in their order. A rank with several strands goes on with the one that can.
struct Strand {
  int rank = 0;
  std::vector<RankStep> steps;
};

/// The steps of all ranks in a call.
struct CallProgram {
  std::vector<Strand> strands;  ///< first one of each rank, by rank
  std::vector<int> owners;      ///< by line: the rank that writes it
};

/// The program of a call. `most_chunks`: protocols with chunks stop after so many.
SINEW_API CallProgram program_of(const ModelCall& call, Protocol protocol, const Levels& levels, const HostCosts& costs,
                                 std::uint64_t most_chunks);

}  // namespace sinew::shm
