#include "placed_data.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include <fmt/format.h>

#include <sinew/core/float_formats.hpp>

namespace sinew::parallel::test {
namespace {

using Entries = std::vector<Placements::Entry>;

template <class T>
void put(Bytes& data, std::size_t place, T value) {
  std::memcpy(data.data() + place * sizeof value, &value, sizeof value);
}

template <class T>
T get(const Bytes& data, std::size_t place) {
  T value;
  std::memcpy(&value, data.data() + place * sizeof value, sizeof value);
  return value;
}

void put_number(Bytes& data, DType dtype, std::size_t place, double value) {
  switch (dtype) {
    case DType::F64: return put(data, place, value);
    case DType::F32: return put(data, place, static_cast<float>(value));
    case DType::I32: return put(data, place, static_cast<std::int32_t>(value));
    default: return put(data, place, to_bfloat16(static_cast<float>(value)).bits);
  }
}

double combine(ReduceOp op, double a, double b) {
  switch (op) {
    case ReduceOp::Product: return a * b;
    case ReduceOp::Min: return std::min(a, b);
    case ReduceOp::Max: return std::max(a, b);
    default: return a + b;
  }
}

/// What rank `index` of `ranks` gives, so that all together are `whole`.
double share_of(double whole, ReduceOp op, int index, int ranks, unsigned seed) {
  const auto dice = [&](int i) {
    return static_cast<int>((seed * 7919U + static_cast<unsigned>(i) * 104729U) % 7) - 3;
  };
  const int keeper = static_cast<int>(seed % static_cast<unsigned>(ranks));
  if (op == ReduceOp::Product) return index == keeper ? whole : 1;
  if (op == ReduceOp::Max) return index == keeper ? whole : whole - 3 - dice(index);
  if (op == ReduceOp::Min) return index == keeper ? whole : whole + 3 + dice(index);
  if (index != keeper) return dice(index);
  double others = 0;
  for (int i = 0; i < ranks; ++i) others += i == keeper ? 0 : dice(i);
  return (op == ReduceOp::Average ? whole * ranks : whole) - others;
}

int rank_with(const std::vector<Axis>& axes, int rank, const std::string& axis, int index) {
  int stride = 1;
  for (const Axis& a : axes) {
    if (a.name == axis) return rank + (index - index_along(axes, axis, rank)) * stride;
    stride *= a.size;
  }
  return -1;
}

/// The Partials from `at` on, combined at one place of the buffers, innermost first.
double combined(const Entries& entries, std::size_t at, const std::vector<Axis>& axes, int rank, DType dtype,
                std::size_t place, const std::vector<Bytes>& data) {
  while (at < entries.size() && !std::holds_alternative<Partial>(entries[at].placement)) ++at;
  if (at == entries.size()) return number_at(data[static_cast<std::size_t>(rank)], dtype, place);
  const ReduceOp op = std::get<Partial>(entries[at].placement).op;
  const int ranks = size_along(axes, entries[at].axis);
  double result = 0;
  for (int i = 0; i < ranks; ++i) {
    const int other = rank_with(axes, rank, entries[at].axis, i);
    const double part = combined(entries, at + 1, axes, other, dtype, place, data);
    result = i == 0 ? part : combine(op, result, part);
  }
  return op == ReduceOp::Average ? result / ranks : result;
}

}  // namespace

int index_along(const std::vector<Axis>& axes, const std::string& axis, int rank) {
  for (const Axis& a : axes) {
    if (a.name == axis) return rank % a.size;
    rank /= a.size;
  }
  return -1;
}

int size_along(const std::vector<Axis>& axes, const std::string& axis) {
  return std::ranges::find(axes, axis, &Axis::name)->size;
}

std::vector<std::size_t> elements_of(const TensorSpec& spec, const std::vector<Axis>& axes, int rank) {
  std::vector<std::size_t> elements{0};
  for (std::size_t d = 0; d < spec.shape.size(); ++d) {
    std::vector<std::size_t> rows(static_cast<std::size_t>(spec.shape[d]));
    std::iota(rows.begin(), rows.end(), std::size_t{0});
    for (const auto& [axis, placement] : spec.placements.entries()) {
      const auto* shard = std::get_if<Shard>(&placement);
      if (shard == nullptr || static_cast<std::size_t>(shard->dim) != d) continue;
      const auto i = static_cast<std::size_t>(index_along(axes, axis, rank));
      const auto ranks = static_cast<std::size_t>(size_along(axes, axis));
      const bool even = shard->offsets.empty();
      const std::size_t first = even ? i * rows.size() / ranks : static_cast<std::size_t>(shard->offsets[i]);
      const std::size_t last = even ? (i + 1) * rows.size() / ranks : static_cast<std::size_t>(shard->offsets[i + 1]);
      rows = std::vector(rows.begin() + static_cast<std::ptrdiff_t>(first),
                         rows.begin() + static_cast<std::ptrdiff_t>(last));
    }
    std::vector<std::size_t> longer;
    for (const std::size_t e : elements) {
      for (const std::size_t row : rows) longer.push_back(e * static_cast<std::size_t>(spec.shape[d]) + row);
    }
    elements = std::move(longer);
  }
  return elements;
}

double value_at(std::size_t element) {
  const auto spread = static_cast<double>(element * 11 % 23);
  return spread < 12 ? spread - 12 : spread - 11;  // -12..-1, 1..11
}

Bytes data_of(const TensorSpec& spec, const std::vector<Axis>& axes, int rank, unsigned seed) {
  const std::vector<std::size_t> elements = elements_of(spec, axes, rank);
  Bytes data(elements.size() * size_of(spec.dtype));
  for (std::size_t place = 0; place < elements.size(); ++place) {
    double value = value_at(elements[place]);
    unsigned dice = seed + static_cast<unsigned>(elements[place]);
    for (const auto& [axis, placement] : spec.placements.entries()) {
      const auto* partial = std::get_if<Partial>(&placement);
      if (partial == nullptr) continue;
      const int index = index_along(axes, axis, rank);
      value = share_of(value, partial->op, index, size_along(axes, axis), dice);
      dice = dice * 31 + static_cast<unsigned>(index) + 1;
    }
    put_number(data, spec.dtype, place, value);
  }
  return data;
}

std::string wrong_in(const TensorSpec& spec, const std::vector<Axis>& axes, int rank,
                     const std::vector<Bytes>& of_all_ranks) {
  const std::vector<std::size_t> elements = elements_of(spec, axes, rank);
  const std::size_t bytes = of_all_ranks[static_cast<std::size_t>(rank)].size();
  if (bytes != elements.size() * size_of(spec.dtype))
    return fmt::format("rank {} has {} bytes of {}, expected {} elements", rank, bytes, spec.placements.to_string(),
                       elements.size());
  for (std::size_t place = 0; place < elements.size(); ++place) {
    const double found = combined(spec.placements.entries(), 0, axes, rank, spec.dtype, place, of_all_ranks);
    if (found != value_at(elements[place]))
      return fmt::format("rank {}, {}: element {} is {}, expected {}", rank, spec.placements.to_string(),
                         elements[place], found, value_at(elements[place]));
  }
  return {};
}

double number_at(const Bytes& data, DType dtype, std::size_t place) {
  switch (dtype) {
    case DType::F64: return get<double>(data, place);
    case DType::F32: return get<float>(data, place);
    case DType::I32: return get<std::int32_t>(data, place);
    default: return to_float(BFloat16{get<std::uint16_t>(data, place)});
  }
}

}  // namespace sinew::parallel::test
