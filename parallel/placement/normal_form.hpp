#pragma once

#include <sinew/core/base/export.hpp>
#include <sinew/core/dtype.hpp>
#include <sinew/parallel/placement/tensor.hpp>

namespace sinew::parallel {

/// Must one of two placements of a tensor stay the outer one: do they cut the same dimension, or combine by operators
/// whose order matters?
bool is_ordered(const Placement& outer, const Placement& inner, DType dtype) noexcept;

/// The one spelling of all placements that put the same data on every rank: no axes of one rank, axes named in the
/// mesh's order, no offsets where an even cut is the same, entries by name where their order does not matter.
/// Shape: a valid spec.
SINEW_API Placements normal_form(const TensorSpec& spec, const Factorisation& mesh);

}  // namespace sinew::parallel
