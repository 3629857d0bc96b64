// The largest magnitude of a block, which its scale is made of. Included once per instruction set.
#if defined(SINEW_CORE_LARGEST_MAGNITUDE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef SINEW_CORE_LARGEST_MAGNITUDE_INL
#undef SINEW_CORE_LARGEST_MAGNITUDE_INL
#else
#define SINEW_CORE_LARGEST_MAGNITUDE_INL
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sinew {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Returns the bits of the largest magnitude. The bits of a NaN are above those of an infinity. The bits of an infinity
/// are above those of any number.
HWY_INLINE std::int32_t largest_magnitude(const float* from, std::size_t count) {
  const hn::ScalableTag<std::int32_t> d;
  const hn::Rebind<float, decltype(d)> floats;
  constexpr std::int32_t kMagnitude = 0x7fffffff;
  const std::size_t step = hn::Lanes(d);
  auto largest = hn::Zero(d);
  std::size_t i = 0;
  for (; i + step <= count; i += step) {
    const auto bits = hn::BitCast(d, hn::LoadU(floats, from + i));
    largest = hn::Max(largest, hn::And(bits, hn::Set(d, kMagnitude)));
  }
  std::int32_t most = hn::GetLane(hn::MaxOfLanes(d, largest));
  for (; i < count; ++i) {
    std::int32_t bits = 0;
    std::memcpy(&bits, from + i, sizeof(bits));  // elements of a message may be unaligned
    most = std::max(most, bits & kMagnitude);
  }
  return most;
}

}  // namespace HWY_NAMESPACE
}  // namespace sinew
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
