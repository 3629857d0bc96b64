#pragma once

#include <span>
#include <string_view>
#include <vector>

#include <sinew/core/buffer.hpp>
#include <sinew/parallel/data/step_plan.hpp>
#include <sinew/parallel/mesh/mesh.hpp>

namespace sinew::parallel {

/// Sees to it that the ranks along `axis` start from the same parameters: number, paths, dtypes, elements, units, uses,
/// and every bit of their values. Other ranks than those would train another model, each a little.
/// Errors: InvalidArgument, on all ranks alike, naming the first parameter that differs, in what, and the first rank
///         whose parameter is not rank 0's.
/// Cost:   a hash of all values; all_reduces of 32 bytes per parameter.
void require_equal_parameters(Mesh& mesh, std::string_view axis, const std::vector<DataParameter>& parameters,
                              std::span<const ConstBuffer> values);

}  // namespace sinew::parallel
