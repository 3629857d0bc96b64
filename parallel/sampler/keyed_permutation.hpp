#pragma once

#include <cstdint>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/common/keyed_random.hpp>

namespace sinew::parallel {

/// A random order of the numbers from 0 to count - 1, which depends on the key alone. Each place of the order is
/// computed by itself. So the order takes no memory, and each rank asks for the places that it needs.
/// Cost:   11 random numbers for a place, and rarely twice as many.
/// Source: Black and Rogaway, Ciphers with Arbitrary Finite Domains (CT-RSA 2002): a generalised Feistel network, which
///         is applied again while its result is `count` or more.
class SINEW_API KeyedPermutation {
 public:
  /// count: 1 to 2^62.
  /// Errors: InvalidArgument for another count.
  KeyedPermutation(const KeyedRandom& random, std::uint64_t count);

  /// The number at this place of the order.
  /// Errors: InvalidArgument for a place of `count` or more.
  std::uint64_t at(std::uint64_t place) const;

 private:
  std::uint64_t once(std::uint64_t number) const;

  KeyedRandom random_;
  std::uint64_t count_;
  std::uint64_t left_, right_;  // numbers below left_ * right_ are pairs of a number below left_ and one below right_
};

}  // namespace sinew::parallel
