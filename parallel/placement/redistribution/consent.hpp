#pragma once

#include <string>
#include <string_view>

#include <sinew/collectives/communicator.hpp>
#include <sinew/parallel/mesh/mesh.hpp>

namespace sinew::parallel {

/// Returns on all ranks of the mesh, or throws on all of them. It returns if all ranks ask for the same and none has a
/// fault.
/// asked: the request as error messages show it. fault: what this rank would throw; empty: nothing. call: the name of
/// the call in error messages.
/// Errors: InvalidArgument. A rank with a fault throws this fault. A rank of a group whose ranks ask for different
///         things throws two of the requests. Every other rank throws the number of a rank that has refused.
/// Cost:   two small all_reduces along each group of the mesh. All groups take part, because a rank cannot know which
///         groups the ranks with other requests would use. A second all_reduce is needed, because ranks may return only
///         when all of them know what each group has found.
void require_consent(const std::string& asked, const std::string& fault, Mesh& mesh, const CallOptions& options,
                     std::string_view call = "redistribute");

}  // namespace sinew::parallel
