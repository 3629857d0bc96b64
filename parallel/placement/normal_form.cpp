#include <algorithm>

#include <sinew/parallel/placement/normal_form.hpp>
#include <sinew/parallel/placement/shard_arithmetic.hpp>

namespace sinew::parallel {
namespace {

/// Does it matter which is applied first? Averages of integers are rounded, each time.
bool commute(ReduceOp a, ReduceOp b, DType dtype) noexcept {
  const auto scaled_sum = [](ReduceOp op) { return op == ReduceOp::Sum || op == ReduceOp::Average; };
  if (a == ReduceOp::Average || b == ReduceOp::Average) return scaled_sum(a) && scaled_sum(b) && !is_integer(dtype);
  return a == b;
}

bool same_as_even(const Shard& shard, int parts, const std::vector<std::int64_t>& extents) noexcept {
  return std::ranges::all_of(extents, [&](std::int64_t extent) {
    for (int i = 0; i < parts; ++i) {
      if (rows_of(shard, i, parts, extent).last != rows_of({shard.dim, {}}, i, parts, extent).last) return false;
    }
    return true;
  });
}

/// The first by name of those that no earlier one must precede, again and again.
std::vector<Placements::Entry> sorted(std::vector<Placements::Entry> entries, DType dtype) {
  std::vector<Placements::Entry> in_order;
  while (!entries.empty()) {
    auto next = entries.end();
    for (auto e = entries.begin(); e != entries.end(); ++e) {
      const bool waits =
          std::any_of(entries.begin(), e, [&](const auto& o) { return is_ordered(o.placement, e->placement, dtype); });
      if (!waits && (next == entries.end() || e->axis < next->axis)) next = e;
    }
    in_order.push_back(std::move(*next));
    entries.erase(next);
  }
  return in_order;
}

}  // namespace

bool is_ordered(const Placement& outer, const Placement& inner, DType dtype) noexcept {
  if (const auto* a = std::get_if<Shard>(&outer)) {
    const auto* b = std::get_if<Shard>(&inner);
    return b != nullptr && a->dim == b->dim;
  }
  const auto* a = std::get_if<Partial>(&outer);
  const auto* b = std::get_if<Partial>(&inner);
  return a != nullptr && b != nullptr && !commute(a->op, b->op, dtype);
}

Placements normal_form(const TensorSpec& spec, const Factorisation& mesh) {
  std::vector<Placements::Entry> entries;
  Extents extents = whole_extents(spec);
  for (Placements::Entry entry : spec.placements.entries()) {
    const int parts = mesh.size(entry.axis);
    if (parts == 1) continue;
    entry.axis = mesh.in_order(entry.axis);
    if (auto* shard = std::get_if<Shard>(&entry.placement)) {
      auto& cut = extents[static_cast<std::size_t>(shard->dim)];
      if (!shard->offsets.empty() && same_as_even(*shard, parts, cut)) shard->offsets.clear();
      cut = cut_extents(*shard, parts, cut);
    }
    entries.push_back(std::move(entry));
  }
  return sorted(std::move(entries), spec.dtype);
}

}  // namespace sinew::parallel
