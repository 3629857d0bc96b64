#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include <sinew/parallel/common/keyed_random.hpp>
#include <sinew/parallel/common/philox.hpp>

namespace sinew::parallel {

KeyedRandom::KeyedRandom(std::uint64_t seed, std::string_view name)
    : key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)} {
  const r123::Philox4x32 generator;
  // The generator mixes the name into the key. Each block has 12 bytes of the name, and the length of the name.
  for (std::size_t at = 0; at <= name.size(); at += 12) {
    PhiloxBits block{{0, 0, 0, static_cast<std::uint32_t>(name.size())}};
    const std::string_view part = name.substr(at, 12);
    std::memcpy(&block[0], part.data(), part.size());
    const PhiloxBits mixed = generator(block, {{key_[0], key_[1]}});
    key_ = {mixed[0], mixed[1]};
  }
}

std::uint64_t KeyedRandom::below(std::uint64_t number, std::uint64_t limit) const {
  const auto scaled = static_cast<std::uint64_t>(uniform(number) * static_cast<double>(limit));
  return std::min(scaled, limit - 1);
}

double KeyedRandom::uniform(std::uint64_t number) const { return philox_uniform({{key_[0], key_[1]}}, number); }

double KeyedRandom::normal(std::uint64_t number) const {
  // Box-Muller transform; only one of its two results is used.
  const PhiloxBits b = philox_bits({{key_[0], key_[1]}}, number);
  const double radius = std::sqrt(-2 * std::log(unit_of(b[0], b[1])));
  return radius * std::cos(2 * std::numbers::pi * unit_of(b[2], b[3]));
}

}  // namespace sinew::parallel
