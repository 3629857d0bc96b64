#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include <sinew/core/dtype.hpp>
#include <sinew/core/numeric/codec.hpp>
#include <sinew/core/numeric/reduce.hpp>

namespace sinew::check {

/// In place of a rank: the combination of the rows of all ranks.
inline constexpr int kCombined = -1;

/// Data whose reduction is exact in every order, for every dtype and operator, so that results are compared bit for
/// bit. Every rank has an endless row of elements that repeats after a prime number of elements; so does the
/// combination of all rows. Sums stay in the range where the dtype holds every integer; products are powers of two.
/// Data that only move, without an operator, may have any bits.
class ExactRows {
 public:
  static constexpr std::uint64_t kPeriod = 1021;

  /// `reduces`: false where data only move; `op` is then unused.
  ExactRows(DType dtype, ReduceOp op, bool reduces, int ranks);
  /// What is carried by a codec, on f32: numbers also where data only move. `codings`: of a contribution, at most.
  ExactRows(Codec codec, int codings, ReduceOp op, bool reduces, int ranks);

  /// Writes `count` elements of `source`'s row (a rank or kCombined) from element `first` on.
  void write(std::byte* to, int source, std::uint64_t first, std::uint64_t count);
  /// The number of elements among `count` that differ from the row of `source`. Coded data differ if their error is
  /// larger than the codec states.
  std::uint64_t differing(const std::byte* found, int source, std::uint64_t first, std::uint64_t count);

 private:
  /// Two periods, so that a period is contiguous from any element on.
  const std::vector<std::byte>& row_of(int source);
  std::vector<std::byte> make_row(int source) const;
  bool differs(const std::byte* found, const std::byte* wanted) const;

  DType dtype_;
  ReduceOp op_;
  int ranks_;
  bool numbers_;
  double error_ = 0;
  std::map<int, std::vector<std::byte>> rows_;
};

}  // namespace sinew::check
