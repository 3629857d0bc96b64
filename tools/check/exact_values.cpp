#include "exact_values.hpp"

#include <algorithm>

namespace sinew::check {
namespace {

constexpr std::int64_t kLargestUseful = 1000;

bool has_sign(DType t) noexcept { return is_signed_integer(t) || !is_integer(t); }

/// Non-negative, the sum over all ranks at most `limit`: every rank a share, or, where ranks outnumber the limit, ones
/// on a window of ranks that wanders with the index.
std::int64_t summand(std::int64_t limit, int ranks, int rank, std::uint64_t index) {
  const std::uint64_t bits = mixed(static_cast<std::uint64_t>(rank), index);
  const std::int64_t share = std::min(limit / ranks, kLargestUseful);
  if (share >= 1) return static_cast<std::int64_t>(bits % static_cast<std::uint64_t>(share + 1));
  const auto place = (static_cast<std::uint64_t>(rank) + index) % static_cast<std::uint64_t>(ranks);
  return place < static_cast<std::uint64_t>(limit) ? static_cast<std::int64_t>(bits & 1) : 0;
}

/// Sums to ranks * c for floats, so that the mean is c; to that and a remainder, which division drops, for integers.
std::int64_t averaged(std::int64_t limit, DType dtype, int ranks, int rank, std::uint64_t index) {
  const std::uint64_t bits = mixed(0xa5, index);
  const auto p = static_cast<std::uint64_t>(ranks);
  const std::int64_t most = std::min((limit - 1) / ranks, kLargestUseful);
  if (is_integer(dtype)) {
    const auto c = most > 1 ? static_cast<std::int64_t>(bits % static_cast<std::uint64_t>(most)) : 0;
    const std::uint64_t remainder = std::min<std::uint64_t>((bits >> 32) % p, static_cast<std::uint64_t>(limit) / 2);
    return c + (static_cast<std::uint64_t>(rank) < remainder ? 1 : 0);
  }
  const auto c = most > 0 ? static_cast<std::int64_t>(bits % static_cast<std::uint64_t>(most + 1)) : 0;
  if (ranks == 1) return c;
  const std::uint64_t up = index % p;
  const std::uint64_t down = (index + 1) % p;
  return c + (static_cast<std::uint64_t>(rank) == up ? 1 : 0) - (static_cast<std::uint64_t>(rank) == down ? 1 : 0);
}

/// A power of two, 8 at most over all ranks; one rank brings a sign where there are signs.
std::int64_t factor(DType dtype, int ranks, int rank, std::uint64_t index) {
  const std::uint64_t bits = mixed(0x5a, index);
  const auto p = static_cast<std::uint64_t>(ranks);
  const auto r = static_cast<std::uint64_t>(rank);
  int exponent = 0;
  for (std::uint64_t k = 1; k <= 3; ++k) exponent += r == (index * k + bits / 8) % p && (bits >> k & 1) != 0 ? 1 : 0;
  const bool negative = has_sign(dtype) && r == (index * 5 + 1) % p && (bits & 1) != 0;
  return (negative ? -1 : 1) * (std::int64_t{1} << exponent);
}

std::int64_t bits_for(ReduceOp op, DType dtype, int rank, std::uint64_t index) {
  const std::uint64_t width = size_of(dtype) * 8;
  const std::uint64_t one = std::uint64_t{1} << ((static_cast<std::uint64_t>(rank) * 3 + index) % width);
  if (op == ReduceOp::BitAnd) return static_cast<std::int64_t>(~one);
  if (op == ReduceOp::BitOr) return static_cast<std::int64_t>(one);
  return static_cast<std::int64_t>(mixed(static_cast<std::uint64_t>(rank), index));
}

/// The contribution of a rank for Bool. At even indices all ranks contribute the neutral element of the operator. At
/// odd indices one rank contributes the other value, which decides the result.
std::int64_t bool_for(ReduceOp op, int ranks, int rank, std::uint64_t index) {
  if (op == ReduceOp::BitXor) return static_cast<std::int64_t>(mixed(static_cast<std::uint64_t>(rank), index) & 1);
  const bool is_and = op == ReduceOp::Product || op == ReduceOp::Min || op == ReduceOp::BitAnd;
  const bool odd_one =
      index % 2 == 1 && static_cast<std::uint64_t>(rank) == index / 2 % static_cast<std::uint64_t>(ranks);
  return odd_one != is_and ? 1 : 0;
}

std::int64_t combined(ReduceOp op, DType dtype, std::int64_t a, std::int64_t b) {
  if (dtype == DType::Bool && op == ReduceOp::Sum) return a | b;
  switch (op) {
    case ReduceOp::Product: return a * b;
    case ReduceOp::Min: return std::min(a, b);
    case ReduceOp::Max: return std::max(a, b);
    case ReduceOp::BitAnd: return a & b;
    case ReduceOp::BitOr: return a | b;
    case ReduceOp::BitXor: return a ^ b;
    case ReduceOp::Sum:
    case ReduceOp::Average:
    case ReduceOp::PreMulSum:
    case ReduceOp::User: return a + b;
  }
  return a;
}

}  // namespace

std::uint64_t mixed(std::uint64_t a, std::uint64_t b) noexcept {
  std::uint64_t x = a * 0x9e3779b97f4a7c15u + b + 0x632be59bd9b4e019u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

std::int64_t exact_limit(DType dtype) noexcept {
  switch (dtype) {
    case DType::I8: return 127;
    case DType::U8: return 255;
    case DType::F8E5M2: return 8;
    case DType::F8E4M3: return 16;
    case DType::BF16: return 256;
    case DType::F16: return 2048;
    case DType::Bool: return 1;
    case DType::I16: return 32767;
    case DType::U16: return 65535;
    case DType::I32:
    case DType::U32:
    case DType::I64:
    case DType::U64:
    case DType::F32:
    case DType::F64: return 1 << 24;
  }
  return 1;
}

std::int64_t contribution(ReduceOp op, DType dtype, int ranks, int rank, std::uint64_t index) {
  if (dtype == DType::Bool) return bool_for(op, ranks, rank, index);
  const std::int64_t limit = exact_limit(dtype);
  switch (op) {
    case ReduceOp::Sum:
    case ReduceOp::User: return summand(limit, ranks, rank, index);
    case ReduceOp::PreMulSum:
      return summand(static_cast<std::int64_t>(static_cast<double>(limit) / kPreMultiply), ranks, rank, index);
    case ReduceOp::Average: return averaged(limit, dtype, ranks, rank, index);
    case ReduceOp::Product: return factor(dtype, ranks, rank, index);
    case ReduceOp::Min:
    case ReduceOp::Max: {
      const auto range = static_cast<std::uint64_t>(std::min(limit, kLargestUseful));
      const auto value = static_cast<std::int64_t>(mixed(static_cast<std::uint64_t>(rank), index) % range);
      return has_sign(dtype) ? value - static_cast<std::int64_t>(range / 2) : value;
    }
    case ReduceOp::BitAnd:
    case ReduceOp::BitOr:
    case ReduceOp::BitXor: return bits_for(op, dtype, rank, index);
  }
  return 0;
}

std::int64_t combination(ReduceOp op, DType dtype, int ranks, std::uint64_t index) {
  std::int64_t value = contribution(op, dtype, ranks, 0, index);
  for (int r = 1; r < ranks; ++r) value = combined(op, dtype, value, contribution(op, dtype, ranks, r, index));
  return op == ReduceOp::PreMulSum ? static_cast<std::int64_t>(static_cast<double>(value) * kPreMultiply) : value;
}

}  // namespace sinew::check
