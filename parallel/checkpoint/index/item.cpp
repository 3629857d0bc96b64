#include <algorithm>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/checkpoint/index/item.hpp>

namespace sinew::parallel {
namespace {

constexpr std::int64_t kMostRows = std::int64_t{1} << 22;

Box whole_box(const CheckpointItem& item) { return {std::vector<std::int64_t>(item.shape.size(), 0), item.shape}; }

void require_extents(const CheckpointItem& item) {
  std::int64_t bytes = static_cast<std::int64_t>(size_of(item.dtype));
  bool sound = true;
  for (const std::int64_t n : item.shape) {
    std::int64_t product = 0;
    sound = sound && n >= 0 && !__builtin_mul_overflow(bytes, std::max<std::int64_t>(1, n), &product);
    bytes = product;
  }
  if (!sound || bytes > std::numeric_limits<std::int64_t>::max() / 2)
    throw Error(Code::InvalidArgument,
                fmt::format("{}: expected extents of 0 or more, and fewer than 2^62 bytes", item.to_string()));
}

/// Calls f(first of the whole, elements) for each row of the box, in order: a row is its last dimension.
template <class F>
void for_each_row(const CheckpointItem& item, const Box& box, const F& f) {
  const std::size_t dims = item.shape.size();
  if (box.elements() == 0) return;
  if (dims == 0) return f(0, 1);
  std::vector<std::int64_t> index = box.first;
  while (true) {
    std::int64_t first = 0;
    for (std::size_t d = 0; d < dims; ++d) first = first * item.shape[d] + index[d];
    f(first, box.extent(dims - 1));
    std::size_t d = dims - 1;
    for (; d > 0; --d) {
      if (++index[d - 1] < box.last[d - 1]) break;
      index[d - 1] = box.first[d - 1];
    }
    if (d == 0) return;
  }
}

}  // namespace

std::int64_t CheckpointItem::elements() const noexcept {
  std::int64_t product = 1;
  for (const std::int64_t n : shape) product *= n;
  return product;
}

std::string CheckpointItem::to_string() const {
  return fmt::format("'{}' ({} [{}])", name, name_of(dtype), fmt::join(shape, ", "));
}

Extent whole_of(const CheckpointItem& item) { return box_of(whole_box(item)); }

Extent range_of(const CheckpointItem& item, std::int64_t first, std::int64_t last) {
  return {whole_box(item), first, last};
}

Extent box_of(Box box) {
  const std::int64_t elements = box.elements();
  return {std::move(box), 0, elements};
}

std::vector<ElementRun> runs_of(const CheckpointItem& item, const Extent& extent) {
  if (extent.elements() == 0) return {};
  if (extent.box == whole_box(item)) return {{extent.first, extent.last, 0}};
  std::vector<ElementRun> runs;
  std::int64_t at = 0;  // in the box
  for_each_row(item, extent.box, [&](std::int64_t first, std::int64_t count) {
    const std::int64_t from = std::max(at, extent.first), until = std::min(at + count, extent.last);
    if (from < until) {
      const ElementRun run{first + from - at, first + until - at, from - extent.first};
      if (!runs.empty() && runs.back().last == run.first) {
        runs.back().last = run.last;
      } else {
        runs.push_back(run);
      }
    }
    at += count;
  });
  return runs;
}

Extent normal_extent(const CheckpointItem& item, const Extent& extent) {
  const std::vector<ElementRun> runs = runs_of(item, extent);
  if (runs.empty()) return range_of(item, 0, 0);
  return runs.size() == 1 ? range_of(item, runs[0].first, runs[0].last) : extent;
}

std::string text_of(const CheckpointItem& item, const Extent& extent) {
  if (extent.box == whole_box(item)) return fmt::format("elements [{}, {})", extent.first, extent.last);
  std::vector<std::string> sides;
  for (std::size_t d = 0; d < extent.box.first.size(); ++d)
    sides.push_back(fmt::format("{}:{}", extent.box.first[d], extent.box.last[d]));
  std::string box = fmt::format("box [{}]", fmt::join(sides, ", "));
  if (extent == box_of(extent.box)) return box;
  return fmt::format("elements [{}, {}) of {}", extent.first, extent.last, box);
}

void require_valid(const CheckpointItem& item, const Extent& extent) {
  if (item.name.empty()) throw Error(Code::InvalidArgument, "checkpoint: an item without a name");
  require_extents(item);
  const Box& box = extent.box;
  bool lies = box.first.size() == item.shape.size() && box.last.size() == item.shape.size();
  for (std::size_t d = 0; lies && d < item.shape.size(); ++d)
    lies = box.first[d] >= 0 && box.first[d] <= box.last[d] && box.last[d] <= item.shape[d];
  lies = lies && extent.first >= 0 && extent.first <= extent.last && extent.last <= box.elements();
  if (lies && (box == whole_box(item) ||
               box.elements() / std::max<std::int64_t>(1, box.extent(item.shape.size() - 1)) <= kMostRows))
    return;
  throw Error(
      Code::InvalidArgument,
      fmt::format("{}: a part of box [{}] to [{}], elements [{}, {}); expected one within the item, of up to {} rows",
                  item.to_string(), fmt::join(box.first, ", "), fmt::join(box.last, ", "), extent.first, extent.last,
                  kMostRows));
}

void require_valid(const CheckpointPart& part) {
  require_valid(part.item, part.extent);
  const std::size_t expected = static_cast<std::size_t>(part.extent.elements()) * size_of(part.item.dtype);
  const std::string what = fmt::format("{}, {}", part.item.to_string(), text_of(part.item, part.extent));
  if (part.buffer.bytes != expected)
    throw Error(Code::InvalidArgument,
                fmt::format("{}: a buffer of {} bytes, expected {}", what, part.buffer.bytes, expected));
  if (part.buffer.place.kind == MemoryKind::Device)
    throw Error(Code::InvalidArgument, fmt::format("{}: a buffer in device memory, expected host memory", what));
}

}  // namespace sinew::parallel
