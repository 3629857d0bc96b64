#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/pipeline/generators/v_shape.hpp>

namespace sinew::parallel {
namespace {

constexpr std::int32_t kMostRanksOfV = 2048;

}  // namespace

PipelineSchedule v_shape_without_actions(std::string_view name, std::int32_t ranks, std::int32_t micro_batches) {
  PipelineSchedule schedule = without_actions(name, ranks, micro_batches, 2);
  if (ranks > kMostRanksOfV)  // the order is made for 2p micro-batches, even if there are fewer
    throw Error(Code::InvalidArgument, fmt::format("{}: {} ranks: expected at most {}", name, ranks, kMostRanksOfV));
  for (std::int32_t s = ranks; s < 2 * ranks; ++s) schedule.rank_of[static_cast<std::size_t>(s)] = 2 * ranks - 1 - s;
  return schedule;
}

}  // namespace sinew::parallel
