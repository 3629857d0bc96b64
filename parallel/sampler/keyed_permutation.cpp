#include <cmath>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/sampler/keyed_permutation.hpp>

namespace sinew::parallel {
namespace {

/// An odd number of rounds and more than the 4 of the proof, since small domains need more for an even distribution.
constexpr std::uint64_t kFeistelRounds = 11;
constexpr std::uint64_t kMostPlaces = std::uint64_t{1} << 62;

/// The least number whose square is n or more.
std::uint64_t root_of(std::uint64_t n) {
  auto root = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(n)));
  while (root * root < n) ++root;
  while (root > 1 && (root - 1) * (root - 1) >= n) --root;
  return root;
}

}  // namespace

KeyedPermutation::KeyedPermutation(const KeyedRandom& random, std::uint64_t count) : random_(random), count_(count) {
  if (count < 1 || count > kMostPlaces)
    throw Error(Code::InvalidArgument, fmt::format("permutation of {} numbers, expected 1 to 2^62", count));
  left_ = root_of(count);
  right_ = (count + left_ - 1) / left_;
}

std::uint64_t KeyedPermutation::at(std::uint64_t place) const {
  if (place >= count_)
    throw Error(Code::InvalidArgument, fmt::format("place {} of a permutation, expected less than {}", place, count_));
  do {
    place = once(place);
  } while (place >= count_);
  return place;
}

std::uint64_t KeyedPermutation::once(std::uint64_t number) const {
  std::uint64_t left = number / right_, right = number % right_;
  for (std::uint64_t round = 0; round < kFeistelRounds; ++round) {
    const bool changes_left = round % 2 == 0;
    const std::uint64_t key = (round << 32) + (changes_left ? right : left);  // both halves are below 2^32
    if (changes_left) {
      left = (left + random_.below(key, left_)) % left_;
    } else {
      right = (right + random_.below(key, right_)) % right_;
    }
  }
  return left * right_ + right;
}

}  // namespace sinew::parallel
