#pragma once

#include <Random123/philox.h>

#include <cstdint>

#include <sinew/parallel/common/kernel_function.hpp>

// The random numbers of KeyedRandom, for the host and for kernels.
namespace sinew::parallel {

using PhiloxBits = r123::Philox4x32::ctr_type;  // four numbers of 32 bits
using PhiloxKey = r123::Philox4x32::key_type;

/// The bits of one number of a key.
SINEW_KERNEL inline PhiloxBits philox_bits(const PhiloxKey& key, std::uint64_t number) {
  const r123::Philox4x32 generator;
  return generator({{static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32), 0, 0}}, key);
}

/// Maps 53 of these bits to (0, 1): the result is the middle of one of 2^53 equal parts of this interval.
SINEW_KERNEL inline double unit_of(std::uint32_t low, std::uint32_t high) {
  const std::uint64_t bits = (std::uint64_t{high} << 32) | low;
  return (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53;
}

/// A uniformly distributed number in (0, 1).
SINEW_KERNEL inline double philox_uniform(const PhiloxKey& key, std::uint64_t number) {
  const PhiloxBits bits = philox_bits(key, number);
  return unit_of(bits[0], bits[1]);
}

}  // namespace sinew::parallel
