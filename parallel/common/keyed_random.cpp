#include <Random123/philox.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include <sinew/parallel/common/keyed_random.hpp>

namespace sinew::parallel {
namespace {

using Bits = std::array<std::uint32_t, 4>;

Bits philox(const Bits& counter, std::array<std::uint32_t, 2> key) {
  const r123::Philox4x32 generator;
  const auto out = generator({{counter[0], counter[1], counter[2], counter[3]}}, {{key[0], key[1]}});
  return {out[0], out[1], out[2], out[3]};
}

std::uint64_t joined(std::uint32_t low, std::uint32_t high) { return (std::uint64_t{high} << 32) | low; }

/// Maps 53 bits to (0, 1): the result is the middle of one of 2^53 equal parts of this interval.
double unit(std::uint64_t bits) { return (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53; }

}  // namespace

KeyedRandom::KeyedRandom(std::uint64_t seed, std::string_view name)
    : key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)} {
  // The generator mixes the name into the key. Each block has 12 bytes of the name, and the length of the name.
  for (std::size_t at = 0; at <= name.size(); at += 12) {
    Bits block{0, 0, 0, static_cast<std::uint32_t>(name.size())};
    const std::string_view part = name.substr(at, 12);
    std::memcpy(block.data(), part.data(), part.size());
    const Bits mixed = philox(block, key_);
    key_ = {mixed[0], mixed[1]};
  }
}

Bits KeyedRandom::bits(std::uint64_t number) const {
  return philox({static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32), 0, 0}, key_);
}

std::uint64_t KeyedRandom::below(std::uint64_t number, std::uint64_t limit) const {
  const auto scaled = static_cast<std::uint64_t>(uniform(number) * static_cast<double>(limit));
  return std::min(scaled, limit - 1);
}

double KeyedRandom::uniform(std::uint64_t number) const {
  const Bits b = bits(number);
  return unit(joined(b[0], b[1]));
}

double KeyedRandom::normal(std::uint64_t number) const {
  const Bits b = bits(number);  // Box-Muller transform; only one of its two results is used
  const double radius = std::sqrt(-2 * std::log(unit(joined(b[0], b[1]))));
  return radius * std::cos(2 * std::numbers::pi * unit(joined(b[2], b[3])));
}

}  // namespace sinew::parallel
