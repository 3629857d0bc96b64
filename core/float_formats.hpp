#pragma once

#include <cstdint>

#include <sinew/core/base/export.hpp>

namespace sinew {

/// Storage of the narrow floats: bits only; arithmetic is conversion to f32 and back (round to nearest even).
struct Half {
  std::uint16_t bits = 0;
};
struct BFloat16 {
  std::uint16_t bits = 0;
};
/// OCP FP8 E4M3: no infinity, NaN is S.1111.111, largest 448; overflow becomes NaN (saturation is the caller's choice).
struct Float8E4M3 {
  std::uint8_t bits = 0;
};
/// OCP FP8 E5M2: IEEE-like with infinities, largest 57344; overflow becomes infinity.
struct Float8E5M2 {
  std::uint8_t bits = 0;
};

SINEW_API float to_float(Half value) noexcept;
SINEW_API float to_float(BFloat16 value) noexcept;
SINEW_API float to_float(Float8E4M3 value) noexcept;
SINEW_API float to_float(Float8E5M2 value) noexcept;

SINEW_API Half to_half(float value) noexcept;
SINEW_API BFloat16 to_bfloat16(float value) noexcept;
SINEW_API Float8E4M3 to_float8_e4m3(float value) noexcept;
SINEW_API Float8E5M2 to_float8_e5m2(float value) noexcept;

}  // namespace sinew
