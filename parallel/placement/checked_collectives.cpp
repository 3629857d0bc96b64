#include <algorithm>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/placement/buffer_checks.hpp>
#include <sinew/parallel/placement/checked_collectives.hpp>
#include <sinew/parallel/placement/normal_form.hpp>
#include <sinew/parallel/placement/parts_collectives.hpp>
#include <sinew/parallel/placement/shard_arithmetic.hpp>

namespace sinew::parallel {
namespace {

[[noreturn]] void refuse(std::string_view what, const TensorSpec& tensor, std::string_view axis,
                         const std::string& why) {
  throw Error(Code::InvalidArgument, fmt::format("{} of {} along {}: {}", what, tensor.to_string(), axis, why));
}

/// A hint for an error: the step that leads from the placement found to the one needed.
std::string_view missing_step(const Placement& found, const Placement& needed) noexcept {
  if (std::holds_alternative<Partial>(needed)) {
    return std::holds_alternative<Partial>(found) ? "all_reduce it first, then combine by the other operator"
           : std::holds_alternative<Shard>(found) ? "it is combined already; all_gather it if all of it is needed"
                                                  : "it is combined already; leave the call out";
  }
  if (std::holds_alternative<Partial>(found))
    return std::holds_alternative<Replicate>(needed) ? "all_reduce it first" : "reduce_scatter it first";
  if (std::holds_alternative<Replicate>(needed)) return "all_gather it first";
  return std::holds_alternative<Shard>(found) ? "redistribute it first, an all_to_all"
                                              : "redistribute it first, by which each rank keeps its part";
}

[[noreturn]] void refuse_placement(std::string_view what, const TensorSpec& tensor, std::string_view axis,
                                   std::string_view needed, std::string_view step) {
  refuse(what, tensor, axis,
         fmt::format("expected {}, found {}: {}", needed, to_string(tensor.placements.along(axis)), step));
}

/// The operator that combines the data along the axis.
ReduceOp require_partial(std::string_view what, const TensorSpec& tensor, std::string_view axis) {
  const Placement& found = tensor.placements.along(axis);
  const auto* partial = std::get_if<Partial>(&found);
  if (partial == nullptr) refuse_placement(what, tensor, axis, "Partial", missing_step(found, Partial{}));
  return partial->op;
}

Shard require_rows(std::string_view what, const TensorSpec& tensor, std::string_view axis) {
  const Placement& found = tensor.placements.along(axis);
  const auto* shard = std::get_if<Shard>(&found);
  if (shard == nullptr) {
    const bool partial = std::holds_alternative<Partial>(found);
    refuse_placement(what, tensor, axis, "Shard(0)",
                     partial ? "all_reduce it instead, or reduce_scatter it first" : "it is whole; leave the call out");
  }
  if (shard->dim != 0)
    refuse_placement(what, tensor, axis, "Shard(0)", "redistribute it, which puts the parts in order");
  return *shard;
}

void require_innermost(std::string_view what, const TensorSpec& tensor, std::string_view axis) {
  const auto& entries = tensor.placements.entries();
  const auto mine = std::ranges::find(entries, axis, &Placements::Entry::axis);
  const auto later = std::find_if(mine + 1, entries.end(), [&](const auto& entry) {
    return is_ordered(mine->placement, entry.placement, tensor.dtype);
  });
  if (later != entries.end())
    refuse(what, tensor, axis,
           fmt::format("expected the innermost, found {} along {} inside it, in {}: change that one first",
                       to_string(later->placement), later->axis, tensor.placements.to_string()));
}

void require_buffer(std::string_view what, const Tensor& tensor, std::string_view axis, std::string_view which,
                    const Mesh& mesh) {
  const std::string fault = fault_of_buffer(tensor, tensor.buffer, which, mesh.shape(), mesh.rank());
  if (!fault.empty()) refuse(what, tensor, axis, fault);
}

Communicator& group_of(std::string_view what, const TensorSpec& tensor, std::string_view axis, Mesh& mesh) {
  try {
    return mesh.along(axis);
  } catch (const Error& e) {
    refuse(what, tensor, axis, e.what());
  }
}

void require_same(std::string_view what, const TensorSpec& from, const TensorSpec& to, std::string_view axis) {
  if (from.dtype != to.dtype || from.shape != to.shape)
    refuse(what, from, axis, fmt::format("`to` is {}; expected one of the same dtype and shape", to.to_string()));
}

/// `to` as it is after the call.
Tensor result_of(const Tensor& from, const Tensor& to, std::string_view axis, Placement placement) {
  Tensor result = to;
  result.placements = from.placements.with(axis, std::move(placement));
  return result;
}

bool even_along(const TensorSpec& whole, const Shard& shard, std::string_view axis, const Mesh& mesh) {
  return cuts_evenly(shard, mesh.size(axis), local_extents(whole, mesh.shape()).front());
}

}  // namespace

Work all_reduce(Mesh& mesh, Tensor& tensor, std::string_view axis, const CallOptions& options) {
  constexpr std::string_view kCall = "all_reduce";
  Communicator& group = group_of(kCall, tensor, axis, mesh);
  require_valid(tensor, mesh.shape());
  const ReduceOp op = require_partial(kCall, tensor, axis);
  require_innermost(kCall, tensor, axis);
  require_buffer(kCall, tensor, axis, "the tensor", mesh);
  Work work = group.all_reduce(tensor.buffer, tensor.buffer, tensor.dtype, op, options);
  tensor.placements = tensor.placements.with(axis, Replicate{});
  return work;
}

Work all_gather(Mesh& mesh, const Tensor& from, Tensor& to, std::string_view axis, const CallOptions& options) {
  constexpr std::string_view kCall = "all_gather";
  Communicator& group = group_of(kCall, from, axis, mesh);
  require_valid(from, mesh.shape());
  require_same(kCall, from, to, axis);
  const Shard shard = require_rows(kCall, from, axis);
  require_innermost(kCall, from, axis);
  Tensor result = result_of(from, to, axis, Replicate{});
  require_buffer(kCall, from, axis, "`from`", mesh);
  require_buffer(kCall, result, axis, "`to`", mesh);
  Work work = gather_parts(group, from.buffer, to.buffer, from.dtype,
                           counts_of(boxes_along(from, axis, mesh.shape(), mesh.rank())),
                           even_along(result, shard, axis, mesh), options);
  to.placements = std::move(result.placements);
  return work;
}

Work reduce_scatter(Mesh& mesh, const Tensor& from, Tensor& to, std::string_view axis, const CallOptions& options) {
  constexpr std::string_view kCall = "reduce_scatter";
  Communicator& group = group_of(kCall, from, axis, mesh);
  require_valid(from, mesh.shape());
  require_same(kCall, from, to, axis);
  const ReduceOp op = require_partial(kCall, from, axis);
  require_innermost(kCall, from, axis);
  const auto* kept = std::get_if<Shard>(&to.placements.along(axis));
  const Shard shard = kept != nullptr && kept->dim == 0 ? *kept : Shard{};
  Tensor result = result_of(from, to, axis, shard);
  require_valid(result, mesh.shape());
  require_buffer(kCall, from, axis, "`from`", mesh);
  require_buffer(kCall, result, axis, "`to`", mesh);
  Work work = reduce_parts(group, from.buffer, to.buffer, from.dtype,
                           counts_of(boxes_along(result, axis, mesh.shape(), mesh.rank())), op,
                           even_along(from, shard, axis, mesh), options);
  to.placements = std::move(result.placements);
  return work;
}

void require(const TensorSpec& tensor, std::string_view axis, const Placement& needed, std::string_view what) {
  const Placement& found = tensor.placements.along(axis);
  if (found != needed) refuse_placement(what, tensor, axis, to_string(needed), missing_step(found, needed));
}

}  // namespace sinew::parallel
