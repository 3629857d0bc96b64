#include <utility>

#include <sinew/collectives/algorithm.hpp>
#include <sinew/collectives/premultiply.hpp>

namespace sinew {

Program build_program(const Algorithm& algorithm, const CollectiveDesc& desc, int rank, int ranks, bool in_place) {
  Program program = algorithm.build(desc, rank, ranks, in_place);
  if (!reduces(desc.collective) || desc.op != ReduceOp::PreMulSum) return program;
  return premultiplied(desc.collective, std::move(program));
}

}  // namespace sinew
