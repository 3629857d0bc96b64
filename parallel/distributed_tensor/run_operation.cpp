#include <algorithm>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/distributed_tensor/run_operation.hpp>

namespace sinew::parallel {

void require_one_mesh(std::string_view name, std::span<const DistributedTensor* const> operands) {
  for (const DistributedTensor* operand : operands) {
    const DistributedTensor& first = *operands.front();
    if (&operand->mesh() == &first.mesh()) continue;
    throw Error(Code::InvalidArgument,
                fmt::format("{}: {} is on mesh '{}', and {} on {} mesh '{}'; expected one mesh", name,
                            first.spec().to_string(), first.mesh().shape().to_string(), operand->spec().to_string(),
                            first.mesh().shape() == operand->mesh().shape() ? "another" : "the",
                            operand->mesh().shape().to_string()));
  }
}

ArrivedOperation arrive(const Operation& operation, std::span<const DistributedTensor* const> operands,
                        const CallOptions& options) {
  Mesh& mesh = operands.front()->mesh();
  ArrivedOperation arrived{plan_to_run(operation, mesh.shape()), {}, {}, {}, options};
  arrived.moved.reserve(operands.size());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Redistribution& move = arrived.plan->moves[i];
    arrived.operands.push_back(operands[i]);
    if (move.steps.empty()) continue;
    TensorSpec spec = operands[i]->spec();
    spec.placements = move.to;
    arrived.moved.push_back(DistributedTensor::unchecked(mesh, std::move(spec)));
    redistribute(move, operands[i]->local(), arrived.moved.back().local(), mesh, options);
    arrived.operands.back() = &arrived.moved.back();
  }
  for (std::size_t r = 0; r < operation.results.size(); ++r) {
    TensorSpec spec = operation.results[r];
    spec.placements = arrived.plan->chosen.results[r];
    arrived.results.push_back(DistributedTensor::unchecked(mesh, std::move(spec)));
  }
  return arrived;
}

}  // namespace sinew::parallel
