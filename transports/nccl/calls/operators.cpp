#include <algorithm>
#include <cstring>

#include <sinew/core/float_formats.hpp>
#include <sinew/transports/nccl/calls/data_type.hpp>
#include <sinew/transports/nccl/calls/operators.hpp>

namespace sinew::nccl {
namespace {

/// The factor as an element of the call's type, where NCCL reads it.
struct Scalar {
  alignas(8) std::byte bytes[8]{};

  template <class T>
  void put(T value) noexcept {
    std::memcpy(bytes, &value, sizeof value);
  }
};

Scalar scalar_of(DType dtype, double factor) noexcept {
  Scalar s;
  const auto narrow = static_cast<float>(factor);
  switch (dtype) {
    case DType::F64: s.put(factor); break;
    case DType::F16: s.put(to_half(narrow).bits); break;
    case DType::BF16: s.put(to_bfloat16(narrow).bits); break;
    case DType::F8E4M3: s.put(to_float8_e4m3(narrow).bits); break;
    case DType::F8E5M2: s.put(to_float8_e5m2(narrow).bits); break;
    default: s.put(narrow); break;  // F32: the operator is not defined for integers
  }
  return s;
}

}  // namespace

Result Operators::find(const Api& api, Comm comm, const NcclCall& call, RedOp& op) {
  if (!reduces(call.collective)) return Result::Success;
  switch (call.dtype == DType::Bool ? bool_op_on_bytes(call.op) : call.op) {
    case ReduceOp::Sum: op = RedOp::Sum; break;
    case ReduceOp::Product: op = RedOp::Prod; break;
    case ReduceOp::Min: op = RedOp::Min; break;
    case ReduceOp::Max: op = RedOp::Max; break;
    case ReduceOp::Average: op = RedOp::Avg; break;
    default: return pre_mul_sum(api, comm, call, op);  // can_run refuses the others
  }
  return Result::Success;
}

Result Operators::pre_mul_sum(const Api& api, Comm comm, const NcclCall& call, RedOp& op) {
  const auto end = made_.begin() + static_cast<std::ptrdiff_t>(std::min(count_, kKept));
  const auto same = [&](const PreMulSum& p) { return p.dtype == call.dtype && p.factor == call.pre_multiply; };
  if (const auto known = std::find_if(made_.begin(), end, same); known != end) {
    op = known->op;
    return Result::Success;
  }
  PreMulSum& place = made_[count_ % kKept];
  if (count_ >= kKept) {
    // NCCL lets go of an operator as soon as the call that took it has returned.
    if (const Result gone = api.red_op_destroy(place.op, comm); gone != Result::Success) return gone;
  }
  Scalar scalar = scalar_of(call.dtype, call.pre_multiply);
  const Result result =
      api.red_op_create_pre_mul_sum(&place.op, scalar.bytes, type_of(call.dtype), ScalarResidence::HostImmediate, comm);
  if (result != Result::Success) return result;
  place.dtype = call.dtype;
  place.factor = call.pre_multiply;
  ++count_;
  op = place.op;
  return Result::Success;
}

}  // namespace sinew::nccl
