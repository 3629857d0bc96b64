#include <algorithm>
#include <array>
#include <ranges>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/common/at.hpp>
#include <sinew/parallel/data_parallel/join.hpp>

namespace sinew::parallel {
namespace {

constexpr CallOptions kJoinCall{.label = "which ranks have a batch", .where = {}};

/// Gradients of a unit, in the order in which a backward pass makes them.
void report_zeros(DataParallel& data, std::int32_t unit) {
  const std::vector<StepProtocol::Gradient>& gradients = data.protocol().shape().gradients;
  for (std::int32_t g = static_cast<std::int32_t>(gradients.size()) - 1; g >= 0; --g) {
    if (gradients[at(g)].unit != unit) continue;
    static_cast<void>(data.gradient(g));
    for (std::int32_t use = 0; use < gradients[at(g)].uses; ++use) data.gradient_ready(g);
  }
}

}  // namespace

Join::Join(DataParallel& data, UnevenInputs uneven) : data_(&data), uneven_(uneven) {
  if (data.gradient_reduction() != ReduceOp::Sum)
    throw Error(Code::InvalidArgument,
                "Join: gradients are averaged over ranks, so ranks without a batch would count in the mean; expected "
                "DataParallelOptions::gradients of ReduceOp::Sum, and an update by gradients times "
                "WeightedLoss::scale()");
}

bool Join::next(bool has_batch) {
  if (const std::int32_t micro_batches = data_->protocol().micro_batches_of_pipeline(); micro_batches > 0)
    throw Error(Code::InvalidArgument,
                fmt::format("Join: a pipeline of {} microbatches makes the passes of a step, and its stages wait for "
                            "each of them; expected as many steps on all ranks, with {} microbatches in each: fill up "
                            "with microbatches whose samples have the weight 0",
                            micro_batches, micro_batches));
  ++calls_;
  Mesh& mesh = data_->mesh();
  std::array<std::int32_t, 2> ranks{has_batch ? 1 : 0, has_batch ? 0 : 1};  // with a batch, and without one
  for (const DataAxis& axis : data_->row().axes)
    mesh.along(axis.axis).all_reduce(ranks, ReduceOp::Sum, kJoinCall).get();
  with_batch_ = ranks[0];
  if (with_batch_ == 0 || ranks[1] == 0 || uneven_ == UnevenInputs::Shadow) return with_batch_ > 0;
  std::array<std::int32_t, 1> first{has_batch ? mesh.shape().ranks() : mesh.rank()};
  for (const DataAxis& axis : data_->row().axes)
    mesh.along(axis.axis).all_reduce(first, ReduceOp::Min, kJoinCall).get();
  throw Error(Code::InvalidArgument,
              fmt::format("Join: at batch {}, {} of {} ranks along {} have no batch, first {}; expected equally many "
                          "batches on all ranks, or UnevenInputs::Shadow",
                          calls_, ranks[1], ranks[0] + ranks[1],
                          fmt::join(data_->row().axes | std::views::transform(&DataAxis::axis), " and "),
                          mesh.rank_text(first[0])),
              first[0]);
}

void shadow_pass(DataParallel& data) {
  const StepProtocol& steps = data.protocol();
  const auto is_outer = [&](std::int32_t unit) { return steps.shape().units[at(unit)].is_outer; };
  const std::vector<std::int32_t>&forward = steps.forward_order(), &backward = steps.backward_order();
  for (const std::int32_t unit : forward) {
    data.before_forward(unit);
    if (!is_outer(unit)) data.after_forward(unit);
  }
  for (const std::int32_t unit : forward) {
    if (is_outer(unit)) data.after_forward(unit);
  }
  if (steps.kind() == PassKind::ForwardOnly) return;
  const auto end = [&](std::int32_t unit) {
    report_zeros(data, unit);
    data.after_backward(unit);
  };
  for (const std::int32_t unit : backward) {
    data.before_backward(unit);
    if (!is_outer(unit)) end(unit);
  }
  for (const std::int32_t unit : backward) {
    if (is_outer(unit)) end(unit);
  }
}

}  // namespace sinew::parallel
