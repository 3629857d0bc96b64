#include "call_rules.hpp"

#include <fmt/format.h>

namespace sinew::tools {

std::optional<OptionFault> fault_of(Collective collective, DType dtype, ReduceOp op, Codec codec) {
  const bool sums = reduces(collective);
  if (sums && !is_defined(op, dtype)) {
    return {
        {"--op", fmt::format("{} is not defined for {}: bitwise operators need integers or bool, {} floats, {} numbers",
                             name_of(op), name_of(dtype), name_of(ReduceOp::PreMulSum), name_of(ReduceOp::Average))}};
  }
  if (!sums && op != ReduceOp::Sum)
    return {{"--op", fmt::format("{}: expected none, as {} combines nothing", name_of(op), name_of(collective))}};
  if (codec == Codec::None) return {};
  if (!may_be_coded(collective)) {
    return {{"--codec", fmt::format("{} is not coded: expected all_reduce, reduce_scatter(v) or all_gather(v)",
                                    name_of(collective))}};
  }
  const bool adds = op == ReduceOp::Sum || op == ReduceOp::Average || op == ReduceOp::PreMulSum;
  if (dtype == DType::F32 && (adds || !sums)) return {};
  return {{"--codec", fmt::format("{} of {}: expected f32 and sum, avg or premulsum", name_of(op), name_of(dtype))}};
}

}  // namespace sinew::tools
