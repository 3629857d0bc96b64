#include <cstdint>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sinew/core/host/stream_copy.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <sinew/core/host/cpu.hpp>
#include <sinew/core/host/stream_copy.hpp>

HWY_BEFORE_NAMESPACE();
namespace sinew {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

void stream_copy_here(std::byte* to, const std::byte* from, std::size_t bytes) {
  const hn::CappedTag<std::uint8_t, kCacheLine> d;
  const std::size_t lane = hn::Lanes(d);
  auto* out = reinterpret_cast<std::uint8_t*>(to);
  const auto* in = reinterpret_cast<const std::uint8_t*>(from);
  std::size_t i = 0;
  for (; i + kCacheLine <= bytes; i += kCacheLine) {
    for (std::size_t j = 0; j < kCacheLine; j += lane) hn::Stream(hn::LoadU(d, in + i + j), d, out + i + j);
  }
  std::memcpy(to + i, from + i, bytes - i);
}

}  // namespace HWY_NAMESPACE
}  // namespace sinew
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sinew {

HWY_EXPORT(stream_copy_here);

void stream_copy(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  HWY_DYNAMIC_DISPATCH(stream_copy_here)(to, from, bytes);
}

void finish_streams() noexcept { hwy::FlushStream(); }

}  // namespace sinew
#endif
