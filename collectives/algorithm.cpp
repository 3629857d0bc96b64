#include <utility>

#include <sinew/collectives/algorithm.hpp>
#include <sinew/collectives/premultiply.hpp>

namespace sinew {

Program build_program(const Algorithm& algorithm, const CollectiveDesc& desc, int rank, int ranks, bool in_place) {
  Program program = algorithm.build(desc, rank, ranks, in_place);
  if (!reduces(desc.collective) || desc.op != ReduceOp::PreMulSum) return program;
  return premultiplied(desc.collective, std::move(program));
}

Schedule build_schedule(const Algorithm& algorithm, const CollectiveDesc& desc, const std::vector<bool>& in_place) {
  Schedule schedule{desc, {}};
  const int ranks = static_cast<int>(in_place.size());
  for (int rank = 0; rank < ranks; ++rank) {
    schedule.programs.push_back(build_program(algorithm, desc, rank, ranks, in_place[static_cast<std::size_t>(rank)]));
  }
  return schedule;
}

}  // namespace sinew
