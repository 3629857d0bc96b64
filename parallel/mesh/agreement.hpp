#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/collectives/communicator.hpp>
#include <sinew/parallel/mesh/mesh.hpp>

namespace sinew::parallel {

/// The same on all ranks of a job, which run one library.
std::uint64_t hash_of(std::string_view bytes);

/// Sees to it that all ranks go on with the same: what follows would hang or mix up groups where they did not.
/// `what` names it in the error: "mesh: rank 0 has 'tp 2, dp 4', rank 3 'tp 4, dp 2'; expected the same on all ranks".
/// Errors: InvalidArgument, on all ranks alike, with the first rank whose text is not rank 0's; as all_reduce.
/// Cost:   an all_reduce of 16 bytes; where ranks differ a gather of all texts, too.
void require_equal_on_all(Communicator& all, std::string_view what, const std::string& text,
                          const CallOptions& options);

/// The largest of each value over all ranks of these groups of the mesh.
template <class T>
void take_largest(std::span<T> values, const std::vector<std::string>& groups, Mesh& mesh, const CallOptions& options) {
  for (const std::string& axes : groups)
    mesh.along(axes).all_reduce(values, ReduceOp::Max, {.deadline = options.deadline, .where = options.where}).get();
}

}  // namespace sinew::parallel
