#pragma once

#include <string>

#include <sinew/collectives/communicator.hpp>
#include <sinew/parallel/mesh/mesh.hpp>

namespace sinew::parallel {

/// Goes on on all ranks of the mesh or on none: where all ask for the same, and none has a fault.
/// asked: as error messages show it. fault: what this rank would throw; empty: nothing.
/// Errors: InvalidArgument: `fault` where there is one; else what two ranks of a group ask for where they differ; else
///         which rank does not go on.
/// Cost:   two small all_reduces along each group of the mesh. All of them, as nobody knows which ones ranks that ask
///         for other things would take; and twice, as nobody may leave before all have learnt what any group found.
void require_consent(const std::string& asked, const std::string& fault, Mesh& mesh, const CallOptions& options);

}  // namespace sinew::parallel
