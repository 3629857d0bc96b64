#include <vector>

#include <fmt/format.h>

#include <sinew/collectives/selection/prove.hpp>
#include <sinew/collectives/verify.hpp>

namespace sinew {

Status prove(const Recipe& recipe, const CollectiveDesc& desc, int ranks) {
  constexpr int kMostRanks = 64;
  if (ranks > kMostRanks) return {};
  for (const bool in_place : {false, true}) {
    const std::vector<bool> each(static_cast<std::size_t>(ranks), in_place);
    const ScheduleVerdict verdict = verify(recipe.build_all(desc, each));
    if (verdict) continue;
    return {Code::Aborted, fmt::format("{} for {} on {} ranks{} is not a right schedule: {} (rank {}, step {})",
                                       recipe.name(), desc.to_string(), ranks, in_place ? ", in place" : "",
                                       verdict.reason, verdict.rank, verdict.step)};
  }
  return {};
}

}  // namespace sinew
