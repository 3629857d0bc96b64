#include <variant>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/reshard/placed_part.hpp>

namespace sinew::parallel {

CheckpointPart placed_part(const Tensor& tensor, const Factorisation& mesh, int rank) {
  require_valid(tensor, mesh);
  for (const Placements::Entry& entry : tensor.placements.entries()) {
    if (std::holds_alternative<Partial>(entry.placement))
      throw Error(Code::InvalidArgument, fmt::format("reshard: {} is {}; expected Replicate or Shard along each axis",
                                                     tensor.to_string(), tensor.placements.to_string()));
  }
  CheckpointPart part{{tensor.name, tensor.dtype, tensor.shape}, box_of(local_box(tensor, mesh, rank)), tensor.buffer};
  require_valid(part);
  return part;
}

}  // namespace sinew::parallel
