#pragma once

#include <string>

#include <sinew/collectives/communicator.hpp>
#include <sinew/parallel/mesh/mesh.hpp>

namespace sinew::parallel {

/// Returns on all ranks of the mesh, or throws on all of them. It returns if all ranks ask for the same and none has a
/// fault.
/// asked: the request as error messages show it. fault: what this rank would throw; empty: nothing.
/// Errors: InvalidArgument with `fault` if there is one. Otherwise with the two different requests of two ranks of a
///         group. Otherwise with the rank that does not go on.
/// Cost:   two small all_reduces along each group of the mesh. All groups take part, because nobody knows which groups
///         the ranks with other requests would use. Two, because no rank may return before all ranks know what each
///         group has found.
void require_consent(const std::string& asked, const std::string& fault, Mesh& mesh, const CallOptions& options);

}  // namespace sinew::parallel
