// One loop for all kernels: any count, any alignment, dst equal to a source or apart.
// Included once per instruction set.
#if defined(SINEW_CORE_REDUCE_SWEEP_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef SINEW_CORE_REDUCE_SWEEP_INL
#undef SINEW_CORE_REDUCE_SWEEP_INL
#else
#define SINEW_CORE_REDUCE_SWEEP_INL
#endif

#include <cstddef>
#include <cstdint>

#include <hwy/highway.h>

#include <sinew/core/numeric/reduce_codecs-inl.hpp>
#include <sinew/core/numeric/reduce_kernels.hpp>
#include <sinew/core/numeric/reduce_ops-inl.hpp>

HWY_BEFORE_NAMESPACE();
namespace sinew {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// a (op) b.
template <class CodecType, class Op>
struct Pair {
  using Codec = CodecType;
  using Raw = typename Codec::Raw;
  const Raw* a;
  const Raw* b;

  template <class From, class D>
  HWY_INLINE hn::Vec<D> lanes(D d, std::size_t i) const {
    return Op::lanes(d, From::load(d, a + i), From::load(d, b + i));
  }
  HWY_INLINE typename Codec::Acc one(std::size_t i) const {
    return Op::one(Codec::load_one(a + i), Codec::load_one(b + i));
  }
};

/// sources[0] (op) sources[1] (op) ..., from left to right, in the accumulator's type all the way.
template <class CodecType, class Op>
struct Many {
  using Codec = CodecType;
  using Raw = typename Codec::Raw;
  const void* const* sources;
  int count;

  HWY_INLINE const Raw* source(int s) const { return static_cast<const Raw*>(sources[s]); }

  template <class From, class D>
  HWY_INLINE hn::Vec<D> lanes(D d, std::size_t i) const {
    auto sum = From::load(d, source(0) + i);
    for (int s = 1; s < count; ++s) sum = Op::lanes(d, sum, From::load(d, source(s) + i));
    return sum;
  }
  HWY_INLINE typename Codec::Acc one(std::size_t i) const {
    auto sum = Codec::load_one(source(0) + i);
    for (int s = 1; s < count; ++s) sum = Op::one(sum, Codec::load_one(source(s) + i));
    return sum;
  }
};

/// The vector that Codec::store takes for the elements from i on.
template <class Codec, class D, class Input>
HWY_INLINE hn::Vec<D> result_at(D d, const Input& in, std::size_t i) {
  if constexpr (requires { Codec::result_at(d, in, i); }) {
    return Codec::result_at(d, in, i);
  } else {
    return in.template lanes<Codec>(d, i);
  }
}

/// At least one vector. The last vector is computed before anything is written and stored at the end, over what the
/// loop may already have stored there: no element is combined twice when dst is a source, and none is left over.
template <class D, class Input, class Raw>
HWY_NOINLINE void sweep_short(D d, Raw* dst, Input in, std::size_t count) {
  using Codec = typename Input::Codec;
  const std::size_t step = hn::Lanes(d);
  const auto last = result_at<Codec>(d, in, count - step);
  for (std::size_t i = 0; i + step <= count; i += step) Codec::store(d, result_at<Codec>(d, in, i), dst + i);
  Codec::store(d, last, dst + (count - step));
}

/// As sweep_short; the first vector too is held back, so that the stores between lie on vector boundaries.
template <class D, class Input, class Raw>
HWY_NOINLINE void sweep_long(D d, Raw* dst, Input in, std::size_t count) {
  using Codec = typename Input::Codec;
  const std::size_t step = hn::Lanes(d);
  const auto first = result_at<Codec>(d, in, 0);
  const auto last = result_at<Codec>(d, in, count - step);
  const std::size_t beyond = reinterpret_cast<std::uintptr_t>(dst) % (step * sizeof(Raw));
  std::size_t i = step - beyond / sizeof(Raw);
  for (; i + 4 * step <= count; i += 4 * step) {
    const auto v0 = result_at<Codec>(d, in, i);
    const auto v1 = result_at<Codec>(d, in, i + step);
    const auto v2 = result_at<Codec>(d, in, i + 2 * step);
    const auto v3 = result_at<Codec>(d, in, i + 3 * step);
    Codec::store(d, v0, dst + i);
    Codec::store(d, v1, dst + i + step);
    Codec::store(d, v2, dst + i + 2 * step);
    Codec::store(d, v3, dst + i + 3 * step);
  }
  for (; i + step <= count; i += step) Codec::store(d, result_at<Codec>(d, in, i), dst + i);
  Codec::store(d, last, dst + (count - step));
  Codec::store(d, first, dst);
}

template <class Input, class Raw>
HWY_INLINE void sweep(Raw* dst, Input in, std::size_t count) {
  using Codec = typename Input::Codec;
  const hn::CappedTag<typename Codec::Lane, 16 / sizeof(typename Codec::Acc)> small;
  const hn::ScalableTag<typename Codec::Lane> full;
  if (count < hn::Lanes(small)) {
    for (std::size_t i = 0; i < count; ++i) Codec::store_one(in.one(i), dst + i);
  } else if (count < hn::Lanes(full)) {
    sweep_short(small, dst, in, count);
  } else if (count < 8 * hn::Lanes(full)) {
    sweep_short(full, dst, in, count);
  } else {
    sweep_long(full, dst, in, count);
  }
}

template <class Codec, class Op>
void reduce_pair(void* dst, const void* a, const void* b, std::size_t count, const void*) noexcept {
  using Raw = typename Codec::Raw;
  sweep(static_cast<Raw*>(dst), Pair<Codec, Op>{static_cast<const Raw*>(a), static_cast<const Raw*>(b)}, count);
}

template <class Codec, class Op>
void reduce_many(void* dst, const void* const* sources, int sources_count, std::size_t count) noexcept {
  sweep(static_cast<typename Codec::Raw*>(dst), Many<Codec, Op>{sources, sources_count}, count);
}

template <class Codec, class Op>
constexpr Kernels kernels_of() {
  return {&reduce_pair<Codec, Op>, &reduce_many<Codec, Op>};
}

/// Sum, product, min and max of one element type; others: none.
template <class Codec>
Kernels arithmetic_kernels(ReduceOp op) {
  switch (op) {
    case ReduceOp::Sum:
    case ReduceOp::Average:
    case ReduceOp::PreMulSum: return kernels_of<Codec, SumOp>();
    case ReduceOp::Product: return kernels_of<Codec, ProductOp>();
    case ReduceOp::Min: return kernels_of<Codec, MinOp>();
    case ReduceOp::Max: return kernels_of<Codec, MaxOp>();
    case ReduceOp::BitAnd:
    case ReduceOp::BitOr:
    case ReduceOp::BitXor:
    case ReduceOp::User: break;
  }
  return {};
}

}  // namespace HWY_NAMESPACE
}  // namespace sinew
HWY_AFTER_NAMESPACE();

#endif
