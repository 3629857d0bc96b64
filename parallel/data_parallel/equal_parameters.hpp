#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sinew/core/buffer.hpp>
#include <sinew/core/error.hpp>
#include <sinew/parallel/mesh/mesh.hpp>
#include <sinew/parallel/parameter/parameter.hpp>

namespace sinew::parallel {

/// Returns on all ranks along these axes, or throws on all of them.
/// differs: the number of groups in which this rank is a suspect (Difference::suspect, mesh/agreement.hpp). `fault`
/// then describes the difference. If `differs` is 0, `fault` is an error of this rank alone.
/// Errors: `fault` on a rank that has one; InvalidArgument on all other ranks. Both carry the number, in the mesh, of
///         the rank that stops the others.
void require_no_fault(Mesh& mesh, const std::vector<std::string>& axes, const std::optional<Error>& fault,
                      const CallOptions& options, int differs = 0);

/// Checks that the ranks along each axis start from the same model. They must agree in `what`, and in the number,
/// paths, dtypes, gradient dtypes, elements, units and uses of the parameters. If `values` are given, every bit of them
/// must agree too. Otherwise each rank would train a slightly different model.
/// Errors: InvalidArgument on all ranks alike if this rank's group along an axis differs. It names the first parameter
///         that differs, how, and the first rank whose parameter is not that of most ranks. Otherwise as
///         require_no_fault.
/// Cost:   a hash of all values; for each axis all_reduces of 32 bytes per parameter.
void require_equal_parameters(Mesh& mesh, const std::vector<std::string>& axes, const std::string& what,
                              const std::vector<DataParameter>& parameters,
                              std::optional<std::span<const ConstBuffer>> values, const CallOptions& options);

/// Initial values that are parts of whole parameters.
/// Lifetime: valid as long as `values`.
InitialValues parts_of_whole(std::span<const ConstBuffer> values);

}  // namespace sinew::parallel
