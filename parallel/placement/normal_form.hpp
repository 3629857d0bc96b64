#pragma once

#include <sinew/core/base/export.hpp>
#include <sinew/core/dtype.hpp>
#include <sinew/parallel/placement/tensor.hpp>

namespace sinew::parallel {

/// Returns whether the order of two placements of a tensor matters. It does if they cut the same dimension, or if they
/// combine by operators whose order matters.
bool is_ordered(const Placement& outer, const Placement& inner, DType dtype) noexcept;

/// One spelling for all placements that put the same data on every rank. Axes of one rank and the offsets of an even
/// cut are left out. Axes are named in the mesh's order. Entries whose order does not matter are sorted by name.
/// Shape: a valid spec.
SINEW_API Placements normal_form(const TensorSpec& spec, const Factorisation& mesh);

}  // namespace sinew::parallel
