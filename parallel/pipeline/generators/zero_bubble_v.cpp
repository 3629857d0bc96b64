#include <algorithm>
#include <cstddef>

#include <sinew/parallel/pipeline/generators/generators.hpp>
#include <sinew/parallel/pipeline/generators/v_shape.hpp>

namespace sinew::parallel {
namespace {

std::vector<Action> zero_bubble_v_rank(std::int32_t ranks, std::int32_t micro_batches, std::int32_t rank) {
  const std::int32_t all = std::max(micro_batches, 2 * ranks - 1);
  VShapeRank row(ranks, micro_batches, rank);
  const auto input_and_weight_gradient = [&](Arm arm) { row.input_gradient(arm), row.weight_gradient(arm); };
  // Until the first output of the V comes back up, the rank fills its memory: with 2p activations in all.
  repeat(2 * (ranks - rank) - 1, [&] { row.forward(Arm::Down); });
  repeat(rank, [&] { row.forward(Arm::Up), row.forward(Arm::Down); });
  // The first gradients have not come down yet.
  repeat(ranks - rank, [&] { row.forward(Arm::Up), input_and_weight_gradient(Arm::Up); });
  while (row.forwards(Arm::Up) < all) {
    if (row.forwards(Arm::Down) < all) row.forward(Arm::Down);
    input_and_weight_gradient(Arm::Down);
    row.forward(Arm::Up), input_and_weight_gradient(Arm::Up);
  }
  // Input gradients go first, because earlier ranks wait for them. Weight gradients fill the end.
  repeat(rank, [&] { row.input_gradient(Arm::Down), row.input_gradient(Arm::Up); });
  repeat(ranks - rank, [&] { input_and_weight_gradient(Arm::Down); });
  for (const Arm arm : {Arm::Up, Arm::Down})
    repeat(row.missing_weight_gradients(arm), [&] { row.weight_gradient(arm); });
  return std::move(row).take();
}

}  // namespace

PipelineSchedule zero_bubble_v(std::int32_t ranks, std::int32_t micro_batches) {
  PipelineSchedule schedule = v_shape_without_actions("zb-v", ranks, micro_batches);
  for (std::int32_t r = 0; r < ranks; ++r)
    schedule.actions[static_cast<std::size_t>(r)] = zero_bubble_v_rank(ranks, micro_batches, r);
  return schedule;
}

}  // namespace sinew::parallel
