#pragma once

#include <cstdint>
#include <cstring>
#include <list>
#include <vector>

#include <sinew/parallel/checkpoint/index/item.hpp>

namespace sinew::parallel::test {

/// Byte number `at` of an item: known to a test without any checkpoint.
inline std::byte byte_of(const CheckpointItem& item, std::uint64_t at) {
  std::uint64_t x = (at + 1) * 0x9E3779B97F4A7C15ULL;
  for (const char c : item.name) x = (x ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  return static_cast<std::byte>(x >> 37);
}

/// Parts with memory of their own.
class Parts {
 public:
  /// With the item's bytes, or with others.
  void add(const CheckpointItem& item, const Extent& extent, bool filled) {
    const auto bytes = static_cast<std::size_t>(extent.elements()) * size_of(item.dtype);
    std::vector<std::byte>& memory = memory_.emplace_back(bytes, std::byte{0xA5});
    all.push_back({item, extent, {memory.data(), memory.size()}});
    if (filled) for_each_byte(all.back(), [](std::byte& b, std::byte expected) { b = expected; });
  }

  /// How many bytes are not the item's.
  std::size_t wrong_bytes() {
    std::size_t wrong = 0;
    for (CheckpointPart& part : all)
      for_each_byte(part, [&](std::byte& b, std::byte expected) { wrong += b != expected ? 1 : 0; });
    return wrong;
  }

  std::vector<CheckpointPart> all;

 private:
  /// By an element's index in each dimension: another way than the one under test.
  template <class F>
  static void for_each_byte(CheckpointPart& part, const F& f) {
    const CheckpointItem& item = part.item;
    const Box& box = part.extent.box;
    const std::size_t element = size_of(item.dtype);
    for (std::int64_t e = part.extent.first; e < part.extent.last; ++e) {
      std::int64_t rest = e, number = 0, stride = 1;
      for (std::size_t d = item.shape.size(); d-- > 0;) {
        number += (box.first[d] + rest % box.extent(d)) * stride;
        rest /= box.extent(d);
        stride *= item.shape[d];
      }
      for (std::size_t b = 0; b < element; ++b)
        f(part.buffer.data[static_cast<std::size_t>(e - part.extent.first) * element + b],
          byte_of(item, static_cast<std::uint64_t>(number) * element + b));
    }
  }

  std::list<std::vector<std::byte>> memory_;
};

/// Uneven, empty, one number, several dimensions, all sizes of elements, and one of more than two blocks.
inline std::vector<CheckpointItem> several_items() {
  return {{"a", DType::F32, {7, 5}},           {"bias", DType::BF16, {3}},      {"empty", DType::F64, {4, 0}},
          {"number", DType::I64, {}},          {"cube", DType::F16, {3, 4, 5}}, {"bytes", DType::U8, {1001}},
          {"large", DType::F64, {1201, 1000}}, {"wide", DType::F32, {2, 64}}};
}

/// How items lie on ranks.
enum class Lying { Copies, Flat, Rows, Columns, FlatOfColumns };

inline void add_parts(Parts& parts, const CheckpointItem& item, Lying how, int rank, int ranks, bool filled) {
  const auto cut = [&](std::int64_t n, int i) { return n * i / ranks; };
  const std::int64_t n = item.elements();
  const bool has_rows = !item.shape.empty(), has_columns = item.shape.size() > 1;
  Box box = whole_of(item).box;
  if (how == Lying::Copies) return parts.add(item, whole_of(item), filled);
  if (how == Lying::Flat || !has_rows) {
    return parts.add(item, range_of(item, cut(n, rank), cut(n, rank + 1)), filled);
  }
  const std::size_t dim = how == Lying::Rows || !has_columns ? 0 : item.shape.size() - 1;
  box.first[dim] = cut(item.shape[dim], rank);
  box.last[dim] = cut(item.shape[dim], rank + 1);
  const Extent all = box_of(box);
  if (how != Lying::FlatOfColumns) return parts.add(item, all, filled);
  const std::int64_t half = all.last / 3;  // two unequal pieces of the box
  parts.add(item, {box, 0, half}, filled);
  parts.add(item, {box, half, all.last}, filled);
}

inline Parts parts_of_rank(Lying how, int rank, int ranks, bool filled) {
  Parts parts;
  for (const CheckpointItem& item : several_items()) add_parts(parts, item, how, rank, ranks, filled);
  return parts;
}

}  // namespace sinew::parallel::test
