#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/placement/shard_arithmetic.hpp>
#include <sinew/parallel/placement/validity.hpp>

namespace sinew::parallel {
namespace {

using Entry = Placements::Entry;

std::string fault_of_shape(const TensorSpec& spec) {
  auto bytes = static_cast<std::ptrdiff_t>(size_of(spec.dtype));
  for (const std::int64_t extent : spec.shape) {
    if (extent < 0) return fmt::format("an extent of {}: expected 0 or more", extent);
    if (__builtin_mul_overflow(bytes, std::max<std::int64_t>(extent, 1), &bytes))
      return "more bytes than an address space";
  }
  return {};
}

/// All axes together: the factorisation refuses those that it has not and those named twice.
std::string fault_of_axes(const TensorSpec& spec, const Factorisation& mesh) {
  std::string all;
  for (const Entry& entry : spec.placements.entries()) all += (all.empty() ? "" : "-") + entry.axis;
  if (all.empty()) return {};
  try {
    static_cast<void>(mesh.size(all));
  } catch (const Error& e) {
    return fmt::format("placements {}: {}", spec.placements.to_string(), e.what());
  }
  return {};
}

std::string fault_of_offsets(const Shard& shard, int parts, const std::vector<std::int64_t>& extents) {
  const auto& offsets = shard.offsets;
  if (offsets.size() != static_cast<std::size_t>(parts) + 1)
    return fmt::format("expected {} offsets, one more than the axis has ranks, found {}", parts + 1, offsets.size());
  if (offsets.front() != 0 || !std::ranges::is_sorted(offsets)) return "expected offsets that ascend from 0";
  if (extents.size() > 1)
    return fmt::format("expected no offsets: the parts of dimension {} that it cuts have from {} to {} rows", shard.dim,
                       extents.front(), extents.back());
  if (offsets.back() != extents.front())
    return fmt::format("expected {} as the last offset, the rows that it cuts", extents.front());
  return {};
}

std::string fault_of_operator(ReduceOp op, DType dtype) {
  if (op == ReduceOp::PreMulSum || op == ReduceOp::User) return "expected an operator that takes nothing but the data";
  return is_defined(op, dtype) ? std::string() : fmt::format("not defined for {}", name_of(dtype));
}

std::string fault_of_entries(const TensorSpec& spec, const Factorisation& mesh) {
  Extents extents = whole_extents(spec);
  for (const Entry& entry : spec.placements.entries()) {
    std::string fault;
    if (const auto* partial = std::get_if<Partial>(&entry.placement)) {
      fault = fault_of_operator(partial->op, spec.dtype);
    } else if (const auto* shard = std::get_if<Shard>(&entry.placement)) {
      if (shard->dim < 0 || static_cast<std::size_t>(shard->dim) >= extents.size()) {
        fault = fmt::format("expected one of its {} dimensions, counted from 0", extents.size());
      } else {
        auto& cut = extents[static_cast<std::size_t>(shard->dim)];
        const int parts = mesh.size(entry.axis);
        if (!shard->offsets.empty()) fault = fault_of_offsets(*shard, parts, cut);
        if (fault.empty()) cut = cut_extents(*shard, parts, cut);
      }
    }
    if (!fault.empty()) return fmt::format("{} along {}: {}", to_string(entry.placement), entry.axis, fault);
  }
  return {};
}

}  // namespace

std::string fault_of(const TensorSpec& spec, const Factorisation& mesh) {
  std::string fault = fault_of_shape(spec);
  if (fault.empty()) fault = fault_of_axes(spec, mesh);
  if (fault.empty()) fault = fault_of_entries(spec, mesh);
  return fault;
}

}  // namespace sinew::parallel
