#include <sinew/collectives/call/arguments.hpp>
#include <sinew/collectives/communicator.hpp>
#include <sinew/collectives/world/communicator_state.hpp>

namespace sinew {

using namespace arguments;

Work Communicator::reduce(ConstBuffer in, Buffer out, DType dtype, int root, ReduceOp op, const CallOptions& options) {
  CommunicatorState& s = state();
  const std::uint64_t count = elements("reduce", "in", in, dtype);
  require_defined("reduce", op, dtype, options);
  CollectiveDesc desc = describe(Collective::Reduce, dtype, {}, count, op, options);
  desc.root = root;
  return s.start_shaped(desc, in, out, options);
}

Work Communicator::gather(ConstBuffer in, Buffer out, DType dtype, int root, const CallOptions& options) {
  CommunicatorState& s = state();
  const std::uint64_t count = elements("gather", "in", in, dtype);
  CollectiveDesc desc = describe(Collective::Gather, dtype, {}, count, options);
  desc.root = root;
  return s.start_shaped(desc, in, out, options);
}

Work Communicator::scatter(ConstBuffer in, Buffer out, DType dtype, int root, const CallOptions& options) {
  CommunicatorState& s = state();
  const std::uint64_t count = elements("scatter", "out", out, dtype);
  CollectiveDesc desc = describe(Collective::Scatter, dtype, {}, count, options);
  desc.root = root;
  return s.start_shaped(desc, in, out, options);
}

}  // namespace sinew
