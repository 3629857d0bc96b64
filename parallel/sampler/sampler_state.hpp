#pragma once

// The order in which a training uses its samples. The room holds a sampler that gives each rank its part of each global
// batch, and the state of it. It may include the room `common`.

#include <cstdint>
#include <string>

#include <sinew/core/base/export.hpp>

namespace sinew::parallel {

/// The most samples that a dataset or a global batch may have.
inline constexpr std::int64_t kMostSamples = std::int64_t{1} << 62;

/// The progress of a training through its samples, as checkpoints keep it. It does not depend on the ranks: any number
/// of them goes on with the same samples in the same order.
struct SamplerState {
  std::uint64_t seed = 0;
  std::int64_t samples = 0;  ///< of the dataset
  bool shuffled = true;      ///< false: the order is that of the numbers, in each epoch
  std::int64_t epoch = 0;
  std::int64_t position = 0;  ///< the samples of the epoch's order that have been used

  /// "sampler at 96 of 1000 samples of epoch 2, seed 7"
  SINEW_API std::string to_string() const;
  friend bool operator==(const SamplerState&, const SamplerState&) = default;
};

/// Errors: InvalidArgument for a state that no sampler has: no samples, an epoch below 0, or a position outside them.
SINEW_API void require_sound(const SamplerState& state);

}  // namespace sinew::parallel
