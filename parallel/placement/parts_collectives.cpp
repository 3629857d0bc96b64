#include <sinew/parallel/placement/parts_collectives.hpp>

namespace sinew::parallel {

Counts counts_of(std::span<const Box> parts) {
  Counts counts;
  for (const Box& part : parts) counts.push_back(static_cast<std::uint64_t>(part.elements()));
  return counts;
}

Work gather_parts(Communicator& group, ConstBuffer in, Buffer out, DType dtype, const Counts& counts, bool even,
                  const CallOptions& options) {
  return even ? group.all_gather(in, out, dtype, options) : group.all_gather_v(in, out, dtype, {counts}, options);
}

Work reduce_parts(Communicator& group, ConstBuffer in, Buffer out, DType dtype, const Counts& counts, ReduceOp op,
                  bool even, const CallOptions& options) {
  return even ? group.reduce_scatter(in, out, dtype, op, options)
              : group.reduce_scatter_v(in, out, dtype, {counts}, op, options);
}

}  // namespace sinew::parallel
