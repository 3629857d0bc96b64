#pragma once

#include <span>
#include <string_view>
#include <vector>

#include <sinew/collectives/schedule.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/call/collective.hpp>
#include <sinew/core/call/cost.hpp>

namespace sinew {

/// What an algorithm costs on P ranks, stated by its author and checked against the schedule itself.
/// Units: `rounds` is the number of messages on the longest dependency chain; the others are multiples of
///        CollectiveDesc::bytes(ranks).
struct AlgorithmCost {
  double rounds = 0;
  double sent = 0;      ///< by the rank that sends most
  double received = 0;  ///< by the rank that receives most
  double serial = 0;    ///< moved one after the other on the longest chain
  double fan = 1;       ///< messages that come to a rank of that chain at a time
  double reduced = 0;   ///< combined by the busiest rank
  double scratch = 0;   ///< held beside the user's buffers by the rank that holds most, if not cut; an upper bound
  bool whole = false;   ///< moves runs of chunks, so it cannot be cut into segments
  /// No message leads back to a rank that it came by: each rank is done with a segment once it has passed it on.
  bool pipelined = false;
};

/// One way to run one collective. Plain data; the table is in algorithms/.
struct Algorithm {
  std::string_view name;
  Collective collective;
  /// Can it run this call on so many ranks? The reason names what it lacks.
  Availability (*supports)(const CollectiveDesc& desc, int ranks);
  /// Pure; a rank builds only its own program. In place may change copies and dependencies, never messages.
  Program (*build)(const CollectiveDesc& desc, int rank, int ranks, bool in_place);
  AlgorithmCost (*cost)(const CollectiveDesc& desc, int ranks);
};

/// Returns the program of Algorithm::build. If the operator is PreMulSum, the program scales the rank's contributions
/// first.
SINEW_API Program build_program(const Algorithm& algorithm, const CollectiveDesc& desc, int rank, int ranks,
                                bool in_place);

SINEW_API std::span<const Algorithm> all_algorithms() noexcept;
/// nullptr where there is none of that name for that collective.
SINEW_API const Algorithm* find_algorithm(Collective collective, std::string_view name) noexcept;

}  // namespace sinew
