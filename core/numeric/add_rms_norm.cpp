#include <cmath>
#include <cstddef>
#include <cstdint>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sinew/core/numeric/add_rms_norm.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <sinew/core/numeric/add_rms_norm.hpp>
#include <sinew/core/numeric/reduce_codecs-inl.hpp>

HWY_BEFORE_NAMESPACE();
namespace sinew {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Loads elements as f32 in the order of memory. BFloat16Codec takes even and odd elements apart instead.
struct BFloat16InOrder : NarrowScalar<BFloat16> {
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const Raw* p) {
    const hn::RebindToUnsigned<D> wide;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(wide, hn::LoadU(hn::Rebind<Raw, D>(), p))));
  }
  template <class D>
  static HWY_INLINE void store(D d, hn::Vec<D> v, Raw* p) {
    const hn::Rebind<Raw, D> narrow;
    hn::StoreU(hn::TruncateTo(narrow, hn::ShiftRight<16>(BFloat16Codec::rounded(d, v))), narrow, p);
  }
};

/// Writes the row of the new residual, and returns the sum of its squares.
template <class Codec>
HWY_INLINE typename Codec::Acc add_row(typename Codec::Raw* to, const typename Codec::Raw* a,
                                       const typename Codec::Raw* b, std::size_t width) {
  using Acc = typename Codec::Acc;
  const hn::ScalableTag<Acc> d;
  const std::size_t step = hn::Lanes(d);
  auto squares = hn::Zero(d), more_squares = hn::Zero(d);
  const auto add = [&](std::size_t i) HWY_ATTR {
    Codec::store(d, hn::Add(Codec::load(d, a + i), Codec::load(d, b + i)), to + i);
    return Codec::load(d, to + i);  // as it was rounded
  };
  std::size_t i = 0;
  for (; i + 2 * step <= width; i += 2 * step) {
    const auto v = add(i), w = add(i + step);
    squares = hn::MulAdd(v, v, squares);
    more_squares = hn::MulAdd(w, w, more_squares);
  }
  Acc sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(squares, more_squares)));
  for (; i < width; ++i) {
    Codec::store_one(Codec::load_one(a + i) + Codec::load_one(b + i), to + i);
    const Acc value = Codec::load_one(to + i);
    sum += value * value;
  }
  return sum;
}

template <class Codec>
HWY_INLINE void scale_row(typename Codec::Raw* to, const typename Codec::Raw* from, const typename Codec::Raw* weight,
                          typename Codec::Acc factor, std::size_t width) {
  const hn::ScalableTag<typename Codec::Acc> d;
  const std::size_t step = hn::Lanes(d);
  const auto factors = hn::Set(d, factor);
  std::size_t i = 0;
  for (; i + step <= width; i += step)
    Codec::store(d, hn::Mul(hn::Mul(Codec::load(d, from + i), factors), Codec::load(d, weight + i)), to + i);
  for (; i < width; ++i) Codec::store_one(Codec::load_one(from + i) * factor * Codec::load_one(weight + i), to + i);
}

template <class Codec>
void add_rms_norm_rows(const AddRmsNorm& shape, std::size_t rows, void* normed, void* new_residual,
                       const void* residual, const void* added) {
  using Raw = typename Codec::Raw;
  using Acc = typename Codec::Acc;
  for (std::size_t row = 0; row < rows; ++row) {
    const std::size_t at = row * shape.width;
    Raw* const sum = static_cast<Raw*>(new_residual) + at;
    const Acc squares =
        add_row<Codec>(sum, static_cast<const Raw*>(residual) + at, static_cast<const Raw*>(added) + at, shape.width);
    const Acc mean = squares / static_cast<Acc>(shape.width);
    const Acc factor = Acc{1} / std::sqrt(mean + static_cast<Acc>(shape.epsilon));
    scale_row<Codec>(static_cast<Raw*>(normed) + at, sum, static_cast<const Raw*>(shape.weight), factor, shape.width);
  }
}

void add_rms_norm_here(const AddRmsNorm& shape, std::size_t rows, void* normed, void* new_residual,
                       const void* residual, const void* added) {
  switch (shape.dtype) {
    case DType::F16: return add_rms_norm_rows<HalfCodec>(shape, rows, normed, new_residual, residual, added);
    case DType::BF16: return add_rms_norm_rows<BFloat16InOrder>(shape, rows, normed, new_residual, residual, added);
    case DType::F32: return add_rms_norm_rows<Plain<float>>(shape, rows, normed, new_residual, residual, added);
    case DType::F64: return add_rms_norm_rows<Plain<double>>(shape, rows, normed, new_residual, residual, added);
    default: return;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace sinew
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sinew {

HWY_EXPORT(add_rms_norm_here);

bool has_add_rms_norm(DType dtype) noexcept {
  return dtype == DType::F16 || dtype == DType::BF16 || dtype == DType::F32 || dtype == DType::F64;
}

void add_rms_norm(const AddRmsNorm& shape, std::size_t rows, void* normed, void* new_residual, const void* residual,
                  const void* added) noexcept {
  HWY_DYNAMIC_DISPATCH(add_rms_norm_here)(shape, rows, normed, new_residual, residual, added);
}

}  // namespace sinew
#endif
