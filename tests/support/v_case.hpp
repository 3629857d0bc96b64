#pragma once

#include <cstdint>

#include <sinew/collectives/communicator.hpp>
#include <sinew/tools/check/exact_data.hpp>

#include "support/collective_case.hpp"

namespace sinew::test {

/// One call of a v-form. Parts have 0, 1 or 2 times `count` elements, so that some ranks have nothing:
/// rank r's part of shared counts (r + 1) % 3 times, and what rank i sends rank j (i + j + 1) % 3 times: the same both
/// ways, as in place must be. `torn`: parts lie in reverse order with gaps, else packed.
struct VCase {
  Collective collective = Collective::AllGatherV;
  DType dtype = DType::F32;
  ReduceOp op = ReduceOp::Sum;
  std::uint64_t count = 0;
  bool in_place = false;
  int root = 0;
  bool torn = false;
};

/// Makes the call on this rank and returns the number of wrong elements: of results, of what lies between them, and of
/// inputs that changed. `where`: null for host memory.
std::uint64_t run_v_case(Communicator& communicator, const VCase& c, const check::Pattern& pattern,
                         const CallOptions& options, const OnDevice* where);

}  // namespace sinew::test
