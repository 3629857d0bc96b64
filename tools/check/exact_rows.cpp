#include "exact_rows.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "exact_values.hpp"

namespace sinew::check {
namespace {

template <class T>
void put(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof(value));
}

/// An exact integer in its dtype.
void store(std::byte* to, DType dtype, std::int64_t value) {
  const auto real = static_cast<float>(value);
  switch (dtype) {
    case DType::Bool:
    case DType::I8:
    case DType::U8: return put(to, static_cast<std::uint8_t>(value));
    case DType::I16:
    case DType::U16: return put(to, static_cast<std::uint16_t>(value));
    case DType::I32:
    case DType::U32: return put(to, static_cast<std::uint32_t>(value));
    case DType::I64:
    case DType::U64: return put(to, static_cast<std::uint64_t>(value));
    case DType::F16: return put(to, to_half(real));
    case DType::BF16: return put(to, to_bfloat16(real));
    case DType::F32: return put(to, real);
    case DType::F64: return put(to, static_cast<double>(value));
    case DType::F8E4M3: return put(to, to_float8_e4m3(real));
    case DType::F8E5M2: return put(to, to_float8_e5m2(real));
  }
}

}  // namespace

ExactRows::ExactRows(DType dtype, ReduceOp op, bool reduces, int ranks)
    : dtype_(dtype), op_(op), ranks_(ranks), numbers_(reduces) {}

ExactRows::ExactRows(Codec codec, int codings, ReduceOp op, bool reduces, int ranks)
    : ExactRows(DType::F32, reduces ? op : ReduceOp::Sum, reduces, ranks) {
  numbers_ = true;
  double magnitude = 0;
  for (int r = 0; r < ranks; ++r) {
    std::int64_t largest = 0;
    for (std::uint64_t i = 0; i < kPeriod; ++i)
      largest = std::max(largest, std::abs(contribution(op_, dtype_, ranks, r, i)));
    magnitude = reduces ? magnitude + static_cast<double>(largest) : std::max(magnitude, static_cast<double>(largest));
  }
  if (op_ == ReduceOp::Average) magnitude /= ranks;
  if (op_ == ReduceOp::PreMulSum) magnitude *= kPreMultiply;
  error_ = coding_error(codec, codings, magnitude);
}

std::vector<std::byte> ExactRows::make_row(int source) const {
  const std::size_t element = size_of(dtype_);
  std::vector<std::byte> row(2 * kPeriod * element);
  for (std::uint64_t i = 0; i < kPeriod; ++i) {
    std::byte* to = row.data() + i * element;
    if (!numbers_) {
      const std::uint64_t bits = mixed(static_cast<std::uint64_t>(source), i);
      std::memcpy(to, &bits, element);
      if (dtype_ == DType::Bool) *to &= std::byte{1};
    } else if (source == kCombined) {
      const std::int64_t value = combination(op_, dtype_, ranks_, i);
      store(to, dtype_, op_ == ReduceOp::Average ? value / ranks_ : value);
    } else {
      store(to, dtype_, contribution(op_, dtype_, ranks_, source, i));
    }
  }
  std::copy_n(row.data(), kPeriod * element, row.data() + kPeriod * element);
  return row;
}

const std::vector<std::byte>& ExactRows::row_of(int source) {
  const auto found = rows_.find(source);
  return found != rows_.end() ? found->second : rows_.emplace(source, make_row(source)).first->second;
}

bool ExactRows::differs(const std::byte* found, const std::byte* wanted) const {
  if (error_ == 0) return std::memcmp(found, wanted, size_of(dtype_)) != 0;
  float x = 0, y = 0;
  std::memcpy(&x, found, sizeof(x));
  std::memcpy(&y, wanted, sizeof(y));
  return !(std::abs(static_cast<double>(x) - y) <= error_);  // a NaN differs
}

void ExactRows::write(std::byte* to, int source, std::uint64_t first, std::uint64_t count) {
  const std::size_t element = size_of(dtype_);
  const std::byte* from = row_of(source).data() + first % kPeriod * element;
  for (std::uint64_t done = 0; done < count; done += kPeriod) {
    std::memcpy(to + done * element, from, std::min(kPeriod, count - done) * element);
  }
}

std::uint64_t ExactRows::differing(const std::byte* found, int source, std::uint64_t first, std::uint64_t count) {
  const std::size_t element = size_of(dtype_);
  const std::byte* wanted = row_of(source).data() + first % kPeriod * element;
  std::uint64_t wrong = 0;
  for (std::uint64_t done = 0; done < count; done += kPeriod) {
    const std::uint64_t run = std::min(kPeriod, count - done);
    const std::byte* here = found + done * element;
    if (std::memcmp(here, wanted, run * element) == 0) continue;
    for (std::uint64_t i = 0; i < run; ++i) wrong += differs(here + i * element, wanted + i * element) ? 1 : 0;
  }
  return wrong;
}

}  // namespace sinew::check
