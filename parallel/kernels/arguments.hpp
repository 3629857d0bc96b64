#pragma once

#include <cstdint>

#include <sinew/parallel/optim/update_rule/kernels.hpp>

namespace sinew::parallel::kernels {

/// The threads of a team.
inline constexpr int kThreads = 256;

// The arguments of kernels. Addresses are those of device memory. Shape: arrays of `count` elements.

/// One step of Adam. `state` holds the master values if values have 16 bits, then the means, then the squares.
struct AdamArguments {
  void* value;
  const void* gradient;
  void* state;
  std::int64_t count;
  AdamStep step;
};

/// One step of SGD. `state` holds the master values if values have 16 bits, then the velocities if there is momentum.
struct SgdArguments {
  void* value;
  const void* gradient;
  void* state;
  std::int64_t count;
  SgdStep step;
};

/// Writes to[i] = from[i], in the dtype of `to`.
struct ConvertArguments {
  const void* from;
  void* to;
  std::int64_t count;
};

/// Each team writes the sum of the squares of its elements.
/// Shape: partial [teams].
struct SquaresArguments {
  const void* in;
  double* partial;
  std::int64_t count;
};

}  // namespace sinew::parallel::kernels
