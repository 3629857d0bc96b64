#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include <sinew/core/dtype.hpp>
#include <sinew/core/numeric/reduce.hpp>

/// What the kernels must give, one element at a time, on the bits of elements. A NaN is always the same one.
namespace sinew::test {

inline std::uint64_t bits_at(const void* p, std::size_t i, DType t) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, static_cast<const std::byte*>(p) + i * size_of(t), size_of(t));
  return bits;
}

inline void put_bits(void* p, std::size_t i, DType t, std::uint64_t bits) {
  std::memcpy(static_cast<std::byte*>(p) + i * size_of(t), &bits, size_of(t));
}

/// The value of a float element; exact.
inline double value_of(DType t, std::uint64_t bits) {
  if (t == DType::F64) return std::bit_cast<double>(bits);
  if (t == DType::F32) return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  if (t == DType::F16) return to_float(Half{static_cast<std::uint16_t>(bits)});
  if (t == DType::BF16) return to_float(BFloat16{static_cast<std::uint16_t>(bits)});
  if (t == DType::F8E4M3) return to_float(Float8E4M3{static_cast<std::uint8_t>(bits)});
  return to_float(Float8E5M2{static_cast<std::uint8_t>(bits)});
}

inline std::uint64_t bits_of(DType t, double value) {
  if (t == DType::F64) {
    return std::bit_cast<std::uint64_t>(value != value ? std::numeric_limits<double>::quiet_NaN() : value);
  }
  const auto narrow = static_cast<float>(value);
  if (t == DType::F32) {
    return std::bit_cast<std::uint32_t>(narrow != narrow ? std::numeric_limits<float>::quiet_NaN() : narrow);
  }
  if (t == DType::F16) return to_half(narrow).bits;
  if (t == DType::BF16) return to_bfloat16(narrow).bits;
  if (t == DType::F8E4M3) return to_float8_e4m3(narrow).bits;
  return to_float8_e5m2(narrow).bits;
}

inline std::int64_t extended(DType t, std::uint64_t bits) {
  if (t == DType::I8) return static_cast<std::int8_t>(bits);
  if (t == DType::I16) return static_cast<std::int16_t>(bits);
  if (t == DType::I32) return static_cast<std::int32_t>(bits);
  return static_cast<std::int64_t>(bits);
}

inline std::uint64_t combine_integers(ReduceOp op, DType t, std::uint64_t a, std::uint64_t b) {
  if (t == DType::Bool && op == ReduceOp::Sum) return a | b;
  const bool less = is_signed_integer(t) ? extended(t, a) < extended(t, b) : a < b;
  switch (op) {
    case ReduceOp::Product: return a * b;
    case ReduceOp::Min: return less ? a : b;
    case ReduceOp::Max: return less ? b : a;
    case ReduceOp::BitAnd: return a & b;
    case ReduceOp::BitOr: return a | b;
    case ReduceOp::BitXor: return a ^ b;
    case ReduceOp::Sum:
    case ReduceOp::Average:
    case ReduceOp::PreMulSum:
    case ReduceOp::User: break;
  }
  return a + b;
}

template <class Float>
Float combine_floats(ReduceOp op, Float a, Float b) {
  if (op == ReduceOp::Product) return a * b;
  if (op != ReduceOp::Min && op != ReduceOp::Max) return a + b;
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<Float>::quiet_NaN();
  const bool a_first = a < b || (a == b && std::signbit(a));
  return a_first == (op == ReduceOp::Min) ? a : b;
}

/// sources[0][i] op sources[1][i] op ..., as bits.
inline std::uint64_t combine_all(ReduceOp op, DType t, const std::vector<const void*>& sources, std::size_t i) {
  std::uint64_t bits = bits_at(sources[0], i, t);
  if (is_integer(t)) {
    for (std::size_t s = 1; s < sources.size(); ++s) bits = combine_integers(op, t, bits, bits_at(sources[s], i, t));
    return bits & (~std::uint64_t{0} >> (64 - 8 * size_of(t)));
  }
  double value = value_of(t, bits);
  for (std::size_t s = 1; s < sources.size(); ++s) {
    const double next = value_of(t, bits_at(sources[s], i, t));
    value = t == DType::F64 ? combine_floats(op, value, next)
                            : combine_floats(op, static_cast<float>(value), static_cast<float>(next));
  }
  return bits_of(t, value);
}

/// Elements of any bits, with every other one of the kind that sums to something: zeros, small numbers, the extremes.
inline std::vector<std::byte> any_elements(DType t, std::size_t count, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> data(count * size_of(t));
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kTame[] = {0.0,
                              -0.0,
                              1,
                              -1,
                              1.5,
                              -2.25,
                              3,
                              100,
                              -7,
                              0.001,
                              kInfinity,
                              -kInfinity,
                              std::numeric_limits<double>::quiet_NaN(),
                              240,
                              448,
                              60000,
                              1e-7,
                              -1e-40};
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t any = random();
    const bool tame = any % 2 == 0;
    if (t == DType::Bool) {
      put_bits(data.data(), i, t, any / 2 % 2);
    } else if (!tame) {
      put_bits(data.data(), i, t, random());
    } else if (is_integer(t)) {
      put_bits(data.data(), i, t, any / 2 % 9 - 4);
    } else {
      put_bits(data.data(), i, t, bits_of(t, kTame[any / 2 % std::size(kTame)]));
    }
  }
  return data;
}

}  // namespace sinew::test
