#include <algorithm>

#include <sinew/parallel/placement/shard_arithmetic.hpp>

namespace sinew::parallel {
namespace {

/// index * extent / parts, without the product.
std::int64_t even_offset(std::int64_t index, std::int64_t parts, std::int64_t extent) noexcept {
  return extent / parts * index + extent % parts * index / parts;
}

}  // namespace

Rows rows_of(const Shard& shard, int index, int parts, std::int64_t extent) noexcept {
  if (shard.offsets.empty()) return {even_offset(index, parts, extent), even_offset(index + 1, parts, extent)};
  const auto i = static_cast<std::size_t>(index);
  return {shard.offsets[i], shard.offsets[i + 1]};
}

bool cuts_evenly(const Shard& shard, int parts, const std::vector<std::int64_t>& extents) noexcept {
  return std::ranges::all_of(extents, [&](std::int64_t extent) {
    if (shard.offsets.empty()) return extent % parts == 0;
    const std::int64_t each = rows_of(shard, 0, parts, extent).count();
    for (int i = 1; i < parts; ++i) {
      if (rows_of(shard, i, parts, extent).count() != each) return false;
    }
    return true;
  });
}

std::vector<std::int64_t> cut_extents(const Shard& shard, int parts, const std::vector<std::int64_t>& extents) {
  std::vector<std::int64_t> found;
  for (const std::int64_t extent : extents) {
    if (shard.offsets.empty()) {
      found.push_back(extent / parts);
      if (extent % parts != 0) found.push_back(extent / parts + 1);
    } else {
      for (int i = 0; i < parts; ++i) found.push_back(rows_of(shard, i, parts, extent).count());
    }
  }
  std::ranges::sort(found);
  found.erase(std::ranges::unique(found).begin(), found.end());
  return found;
}

Extents whole_extents(const TensorSpec& spec) {
  Extents extents;
  for (const std::int64_t extent : spec.shape) extents.push_back({extent});
  return extents;
}

Extents local_extents(const TensorSpec& spec, const Factorisation& mesh) {
  Extents extents = whole_extents(spec);
  for (const auto& [axis, placement] : spec.placements.entries()) {
    if (const auto* shard = std::get_if<Shard>(&placement)) {
      auto& cut = extents[static_cast<std::size_t>(shard->dim)];
      cut = cut_extents(*shard, mesh.size(axis), cut);
    }
  }
  return extents;
}

std::uint64_t most_elements(const Extents& extents) noexcept {
  std::uint64_t product = 1;
  for (const auto& of_dim : extents) product *= static_cast<std::uint64_t>(of_dim.back());
  return product;
}

Box box_of(const TensorSpec& spec, const Factorisation& mesh, int rank) {
  Box box{std::vector<std::int64_t>(spec.shape.size(), 0), spec.shape};
  for (const auto& [axis, placement] : spec.placements.entries()) {
    if (const auto* shard = std::get_if<Shard>(&placement)) {
      const auto d = static_cast<std::size_t>(shard->dim);
      const Rows rows = rows_of(*shard, mesh.index(rank, axis), mesh.size(axis), box.extent(d));
      box.last[d] = box.first[d] + rows.last;
      box.first[d] += rows.first;
    }
  }
  return box;
}

std::vector<Box> boxes_along(const TensorSpec& spec, std::string_view axis, const Factorisation& mesh, int rank) {
  std::vector<Box> boxes;
  for (const int member : mesh.group_of(rank, axis)) boxes.push_back(box_of(spec, mesh, member));
  return boxes;
}

}  // namespace sinew::parallel
