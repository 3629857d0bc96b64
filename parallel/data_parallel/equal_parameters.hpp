#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sinew/core/buffer.hpp>
#include <sinew/core/error.hpp>
#include <sinew/parallel/data_parallel/step_plan.hpp>
#include <sinew/parallel/mesh/mesh.hpp>

namespace sinew::parallel {

/// Goes on on all ranks along these axes or on none. `differs`: in how many of its groups this rank is suspected of a
/// difference, which `fault` tells of; 0: the fault is this rank's own.
/// Errors: `fault` where there is one; else, where another rank has one, InvalidArgument; both with the rank of the
///         mesh that stops the others.
void require_no_fault(Mesh& mesh, const std::vector<std::string>& axes, const std::optional<Error>& fault,
                      const CallOptions& options, int differs = 0);

/// Sees to it that the ranks along each axis start from the same: `what` they ask for, and parameters: number, paths,
/// dtypes, also of gradients, elements, units, uses, and every bit of their values, where these are given. Other ranks
/// than those would train another model, each a little.
/// Errors: InvalidArgument on all ranks alike: where this rank's group of an axis differs, naming the first parameter
///         that does, in what, and the first rank whose parameter is not that of most; else as require_no_fault.
/// Cost:   a hash of all values; for each axis all_reduces of 32 bytes per parameter.
void require_equal_parameters(Mesh& mesh, const std::vector<std::string>& axes, const std::string& what,
                              const std::vector<DataParameter>& parameters,
                              std::optional<std::span<const ConstBuffer>> values, const CallOptions& options);

}  // namespace sinew::parallel
