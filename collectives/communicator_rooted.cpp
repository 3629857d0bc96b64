#include <sinew/collectives/arguments.hpp>
#include <sinew/collectives/call_shape.hpp>
#include <sinew/collectives/communicator.hpp>
#include <sinew/collectives/communicator_state.hpp>

namespace sinew {

using namespace arguments;

namespace {

/// `count`: of what every rank has.
Work start_rooted(CommunicatorState& s, CollectiveDesc desc, int root, ConstBuffer in, Buffer out,
                  const CallOptions& options) {
  desc.root = root;
  const Placing placing =
      require_shape(name_of(desc.collective), call_shape(desc, s.group.rank, s.group.size()), in, out);
  desc.place = placing.place;
  return s.start(desc, in, out, placing.in_place, options);
}

}  // namespace

Work Communicator::reduce(ConstBuffer in, Buffer out, DType dtype, int root, ReduceOp op, const CallOptions& options) {
  CommunicatorState& s = state();
  const std::uint64_t count = elements("reduce", "in", in, dtype);
  require_defined("reduce", op, dtype, options);
  return start_rooted(s, describe(Collective::Reduce, dtype, {}, count, op, options), root, in, out, options);
}

Work Communicator::gather(ConstBuffer in, Buffer out, DType dtype, int root, const CallOptions& options) {
  CommunicatorState& s = state();
  const std::uint64_t count = elements("gather", "in", in, dtype);
  return start_rooted(s, describe(Collective::Gather, dtype, {}, count, options), root, in, out, options);
}

Work Communicator::scatter(ConstBuffer in, Buffer out, DType dtype, int root, const CallOptions& options) {
  CommunicatorState& s = state();
  const std::uint64_t count = elements("scatter", "out", out, dtype);
  return start_rooted(s, describe(Collective::Scatter, dtype, {}, count, options), root, in, out, options);
}

}  // namespace sinew
