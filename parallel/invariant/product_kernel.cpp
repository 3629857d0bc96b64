#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sinew/parallel/invariant/product_kernel.cpp"
// The first one includes this file again for each target, before anything else is seen.
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

#include <sinew/parallel/invariant/leaves.hpp>
#include <sinew/parallel/invariant/product_kernel.hpp>

HWY_BEFORE_NAMESPACE();
namespace sinew::parallel::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
std::size_t columns_of() {
  return 2 * hn::Lanes(hn::ScalableTag<T>());
}

template <class T>
void tile_of(const T* HWY_RESTRICT a, const T* HWY_RESTRICT b, const LeafRows& k, const T* HWY_RESTRICT begin,
             T* HWY_RESTRICT tile) {
  static_assert(kTileRows == 4);
  const hn::ScalableTag<T> d;
  const std::size_t lanes = hn::Lanes(d), columns = 2 * lanes, elements = kTileRows * columns;
  // At each height one left node may wait for its right sibling. It waits as single elements, because vectors of
  // run-time length cannot be in an array.
  HWY_ALIGN T waiting[kMostHeight * kTileRows * 2 * hn::MaxLanes(hn::ScalableTag<T>())];
  const auto zero = hn::Zero(d);
  const auto leaves = static_cast<std::uint64_t>(k.leaves());
  const auto length = static_cast<std::size_t>(k.leaf);
  for (std::uint64_t leaf = 0; leaf < leaves; ++leaf) {
    auto s00 = zero, s01 = zero, s10 = zero, s11 = zero, s20 = zero, s21 = zero, s30 = zero, s31 = zero;
    if (begin != nullptr) {
      s00 = hn::LoadU(d, begin), s01 = hn::LoadU(d, begin + lanes);
      s10 = hn::LoadU(d, begin + columns), s11 = hn::LoadU(d, begin + columns + lanes);
      s20 = hn::LoadU(d, begin + 2 * columns), s21 = hn::LoadU(d, begin + 2 * columns + lanes);
      s30 = hn::LoadU(d, begin + 3 * columns), s31 = hn::LoadU(d, begin + 3 * columns + lanes);
    }
    const auto number = static_cast<std::int64_t>(leaf), all = static_cast<std::int64_t>(leaves);
    const std::size_t first = static_cast<std::size_t>(k.folded ? folded(number, all) : number) * length;
    const T* pa = a + first * kTileRows;
    const T* pb = b + first * columns;
    for (std::size_t i = 0; i < length; ++i, pa += kTileRows, pb += columns) {
      const auto b0 = hn::LoadU(d, pb), b1 = hn::LoadU(d, pb + lanes);
      const auto a0 = hn::Set(d, pa[0]), a1 = hn::Set(d, pa[1]), a2 = hn::Set(d, pa[2]), a3 = hn::Set(d, pa[3]);
      s00 = hn::MulAdd(a0, b0, s00), s01 = hn::MulAdd(a0, b1, s01);
      s10 = hn::MulAdd(a1, b0, s10), s11 = hn::MulAdd(a1, b1, s11);
      s20 = hn::MulAdd(a2, b0, s20), s21 = hn::MulAdd(a2, b1, s21);
      s30 = hn::MulAdd(a3, b0, s30), s31 = hn::MulAdd(a3, b1, s31);
    }
    std::size_t at = 0;  // of what waits
    for (std::uint64_t rest = leaf; (rest & 1) != 0; rest >>= 1, at += elements) {
      const T* w = waiting + at;
      s00 = hn::Add(hn::LoadU(d, w), s00), s01 = hn::Add(hn::LoadU(d, w + lanes), s01);
      s10 = hn::Add(hn::LoadU(d, w + columns), s10), s11 = hn::Add(hn::LoadU(d, w + columns + lanes), s11);
      s20 = hn::Add(hn::LoadU(d, w + 2 * columns), s20), s21 = hn::Add(hn::LoadU(d, w + 2 * columns + lanes), s21);
      s30 = hn::Add(hn::LoadU(d, w + 3 * columns), s30), s31 = hn::Add(hn::LoadU(d, w + 3 * columns + lanes), s31);
    }
    T* to = leaf + 1 == leaves ? tile : waiting + at;
    hn::StoreU(s00, d, to), hn::StoreU(s01, d, to + lanes);
    hn::StoreU(s10, d, to + columns), hn::StoreU(s11, d, to + columns + lanes);
    hn::StoreU(s20, d, to + 2 * columns), hn::StoreU(s21, d, to + 2 * columns + lanes);
    hn::StoreU(s30, d, to + 3 * columns), hn::StoreU(s31, d, to + 3 * columns + lanes);
  }
}

std::size_t columns_of_f32() { return columns_of<float>(); }
std::size_t columns_of_f64() { return columns_of<double>(); }
void tile_of_f32(const float* a, const float* b, const LeafRows& k, const float* begin, float* tile) {
  tile_of(a, b, k, begin, tile);
}
void tile_of_f64(const double* a, const double* b, const LeafRows& k, const double* begin, double* tile) {
  tile_of(a, b, k, begin, tile);
}

}  // namespace sinew::parallel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sinew::parallel {

HWY_EXPORT(columns_of_f32);
HWY_EXPORT(columns_of_f64);
HWY_EXPORT(tile_of_f32);
HWY_EXPORT(tile_of_f64);

template <>
std::size_t tile_columns<float>() noexcept {
  return HWY_DYNAMIC_DISPATCH(columns_of_f32)();
}
template <>
std::size_t tile_columns<double>() noexcept {
  return HWY_DYNAMIC_DISPATCH(columns_of_f64)();
}
template <>
void multiply_tile(const float* a, const float* b, const LeafRows& k, const float* begin, float* tile) noexcept {
  HWY_DYNAMIC_DISPATCH(tile_of_f32)(a, b, k, begin, tile);
}
template <>
void multiply_tile(const double* a, const double* b, const LeafRows& k, const double* begin, double* tile) noexcept {
  HWY_DYNAMIC_DISPATCH(tile_of_f64)(a, b, k, begin, tile);
}

}  // namespace sinew::parallel
#endif
