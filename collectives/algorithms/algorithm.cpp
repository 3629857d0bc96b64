#include <sinew/collectives/algorithms/algorithm.hpp>
#include <sinew/collectives/schedule/premultiply.hpp>

namespace sinew {

Program build_program(const Algorithm& algorithm, const CollectiveDesc& desc, int rank, int ranks, bool in_place) {
  return premultiplied(desc, algorithm.build(desc, rank, ranks, in_place));
}

}  // namespace sinew
