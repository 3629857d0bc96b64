#pragma once

#include <cstdint>

namespace sinew::parallel {

/// The part of the forward pass that the backward pass computes again. Selective: what is cheap to compute.
enum class Recompute : std::uint8_t { None, Selective, Full };

}  // namespace sinew::parallel
