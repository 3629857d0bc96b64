#include "tensors.hpp"

#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <optional>
#include <string_view>
#include <torch/csrc/distributed/c10d/Utils.hpp>

#include "device.hpp"
#include "errors.hpp"

namespace sinew::torch_backend {
namespace {

std::optional<DType> dtype_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat: return DType::F32;
    case at::kDouble: return DType::F64;
    case at::kHalf: return DType::F16;
    case at::kBFloat16: return DType::BF16;
    case at::kBool: return DType::Bool;
    case at::kByte: return DType::U8;
    case at::kChar: return DType::I8;
    case at::kShort: return DType::I16;
    case at::kInt: return DType::I32;
    case at::kLong: return DType::I64;
    case at::kUInt16: return DType::U16;
    case at::kUInt32: return DType::U32;
    case at::kUInt64: return DType::U64;
    case at::kFloat8_e4m3fn: return DType::F8E4M3;
    case at::kFloat8_e5m2: return DType::F8E5M2;
    default: return std::nullopt;
  }
}

/// The dtype of the real and the imaginary part.
std::optional<DType> part_of_complex(at::ScalarType type) {
  switch (type) {
    case at::kComplexHalf: return DType::F16;
    case at::kComplexFloat: return DType::F32;
    case at::kComplexDouble: return DType::F64;
    default: return std::nullopt;
  }
}

std::string_view name_of_op(c10d::ReduceOp::RedOpType op) {
  switch (op) {
    case c10d::ReduceOp::SUM: return "SUM";
    case c10d::ReduceOp::AVG: return "AVG";
    case c10d::ReduceOp::PRODUCT: return "PRODUCT";
    case c10d::ReduceOp::MIN: return "MIN";
    case c10d::ReduceOp::MAX: return "MAX";
    case c10d::ReduceOp::BAND: return "BAND";
    case c10d::ReduceOp::BOR: return "BOR";
    case c10d::ReduceOp::BXOR: return "BXOR";
    case c10d::ReduceOp::PREMUL_SUM: return "PREMUL_SUM";
    case c10d::ReduceOp::UNUSED: break;
  }
  return "UNUSED";
}

std::optional<ReduceOp> op_of(c10d::ReduceOp::RedOpType op) {
  switch (op) {
    case c10d::ReduceOp::SUM: return ReduceOp::Sum;
    case c10d::ReduceOp::AVG: return ReduceOp::Average;
    case c10d::ReduceOp::PRODUCT: return ReduceOp::Product;
    case c10d::ReduceOp::MIN: return ReduceOp::Min;
    case c10d::ReduceOp::MAX: return ReduceOp::Max;
    case c10d::ReduceOp::BAND: return ReduceOp::BitAnd;
    case c10d::ReduceOp::BOR: return ReduceOp::BitOr;
    case c10d::ReduceOp::BXOR: return ReduceOp::BitXor;
    case c10d::ReduceOp::PREMUL_SUM: return ReduceOp::PreMulSum;
    case c10d::ReduceOp::UNUSED: break;
  }
  return std::nullopt;
}

double factor_of(const c10d::ReduceOp& op, const char* function) {
  const auto* supplement = dynamic_cast<const c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
  if (supplement == nullptr)
    reject(function, "ReduceOp.PREMUL_SUM has no factor; make it by torch.distributed._make_nccl_premul_sum(factor)");
  return supplement->tensor_factor.defined() ? supplement->tensor_factor.item<double>() : supplement->double_factor;
}

[[noreturn]] void reject_reduction(at::ScalarType type, c10d::ReduceOp::RedOpType op, const char* function,
                                   std::string_view expected) {
  reject(function, c10::str("cannot use ReduceOp.", name_of_op(op), " with ", c10::toString(type),
                            " tensors: expected ", expected));
}

bool is_plain(const at::Tensor& t) {
  constexpr c10::DispatchKeySet kLazy(
      {c10::DispatchKey::Conjugate, c10::DispatchKey::Negative, c10::DispatchKey::ZeroTensor});
  return t.is_contiguous() && !t.key_set().has_any(kLazy);
}

/// Programs that free memory by hand, as FSDP does, take the storage of a tensor away. The tensor keeps its sizes.
void require_storage(const at::Tensor& t) {
  const std::size_t needed = static_cast<std::size_t>(t.storage_offset() + t.numel()) * t.element_size();
  if (t.numel() > 0 && t.storage().nbytes() < needed) [[unlikely]] {
    reject("call", c10::str("a tensor of sizes ", t.sizes(), " needs ", needed, " bytes of its storage, which has ",
                            t.storage().nbytes(), ": it was resized or freed"));
  }
}

at::Tensor contiguous_like(const at::Tensor& t) {
  return at::empty(t.sizes(), t.options().memory_format(at::MemoryFormat::Contiguous));
}

Buffer writable(const at::Tensor& t) {
  return {static_cast<std::byte*>(t.mutable_data_ptr()), t.nbytes(), device::place(t.device())};
}

}  // namespace

Element moved_element(at::ScalarType type) {
  if (const auto dtype = dtype_of(type)) return {*dtype, 1};
  if (const auto part = part_of_complex(type)) return {*part, 2};
  return {DType::U8, static_cast<std::uint32_t>(c10::elementSize(type))};
}

Reduction reduction_of(at::ScalarType type, const c10d::ReduceOp& op, const char* function) {
  const auto asked = op_of(op.op_);
  if (!asked) reject(function, "ReduceOp.UNUSED is no operator");
  std::optional<DType> dtype = dtype_of(type);
  if (!dtype) {
    dtype = part_of_complex(type);
    if (!dtype)
      reject_reduction(type, op.op_, function,
                       "a dtype with arithmetic; float8_e4m3fn and float8_e5m2 are the float8 types");
    if (!c10d::isComplexViewAsRealAllowed(op))
      reject_reduction(type, op.op_, function, "SUM, AVG or PREMUL_SUM, which act on real and imaginary parts alike");
  }
  if (*asked == ReduceOp::Average && is_integer(*dtype))
    reject_reduction(type, op.op_, function, "a dtype of floats, as an average of integers is no integer");
  if (!is_defined(*asked, *dtype)) {
    reject_reduction(type, op.op_, function,
                     is_bitwise(*asked)
                         ? "an integral dtype or bool (Cannot use bitwise operators with non-integral dtype)"
                         : "a dtype of floats");
  }
  return {*dtype, *asked, *asked == ReduceOp::PreMulSum ? factor_of(op, function) : 1.0};
}

void require_dense(const at::Tensor& tensor, const char* function) {
  if (tensor.layout() != at::kStrided)
    reject(function, c10::str("only supports dense tensors, found layout ", tensor.layout()));
  if (!tensor.device().is_cpu() && !tensor.device().is_cuda())
    reject(function, c10::str("unsupported device type ", tensor.device().str(), ": expected a CPU or CUDA tensor"));
}

void require_dense(at::TensorList tensors, const char* function) {
  for (const at::Tensor& t : tensors) require_dense(t, function);
}

void require_same_dtype(at::TensorList tensors, at::ScalarType type, const char* function) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].scalar_type() != type) {
      reject(function, c10::str("invalid tensor type at index ", i, " (expected ", c10::toString(type), ", got ",
                                c10::toString(tensors[i].scalar_type()), ")"));
    }
  }
}

void require_same(at::TensorList tensors, const at::Tensor& like, const char* function) {
  require_same_dtype(tensors, like.scalar_type(), function);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].sizes() != like.sizes()) {
      reject(function, c10::str("invalid tensor size at index ", i, " (expected ", c10d::toString(like.sizes()),
                                ", got ", c10d::toString(tensors[i].sizes()), ")"));
    }
  }
}

void Buffers::require_one_device(const at::Tensor& tensor) {
  const bool first = held_.empty();
  const std::optional<c10::Device> found = tensor.device().is_cpu() ? std::nullopt : std::optional(tensor.device());
  if (!first && found != device_) {
    const auto text = [](const auto& d) { return d ? d->str() : std::string("cpu"); };
    reject("call",
           c10::str("tensors of one call lie on ", text(device_), " and ", text(found), ": expected one device"));
  }
  device_ = found;
}

ConstBuffer Buffers::read(const at::Tensor& tensor) {
  require_one_device(tensor);
  if (is_plain(tensor)) [[likely]] {
    require_storage(tensor);
    held_.push_back(tensor);
  } else {
    const at::AutoDispatchBelowADInplaceOrView guard;
    held_.push_back(contiguous_like(tensor).copy_(tensor));
  }
  const at::Tensor& memory = held_.back();
  return {static_cast<const std::byte*>(memory.const_data_ptr()), memory.nbytes(), device::place(memory.device())};
}

Buffer Buffers::write(const at::Tensor& tensor, bool apart) {
  if (!apart || !is_plain(tensor)) [[unlikely]]
    return write_later(tensor);
  require_one_device(tensor);
  require_storage(tensor);
  held_.push_back(tensor);
  return writable(tensor);
}

Buffer Buffers::write_later(const at::Tensor& tensor) {
  require_one_device(tensor);
  at::assert_no_internal_overlap(tensor);
  const at::AutoDispatchBelowADInplaceOrView guard;
  held_.push_back(contiguous_like(tensor));
  later_.emplace_back(held_.back(), tensor);
  return writable(held_.back());
}

/// A piece of memory for all of the tensors, and its part for each.
std::pair<at::Tensor, std::vector<at::Tensor>> Buffers::joined(at::TensorList tensors) {
  std::int64_t elements = 0;
  for (const at::Tensor& t : tensors) {
    require_one_device(t);
    elements += t.numel();
  }
  at::Tensor whole = at::empty({elements}, tensors.front().options());
  std::vector<at::Tensor> parts;
  std::int64_t next = 0;
  for (const at::Tensor& t : tensors) {
    parts.push_back(whole.narrow(0, next, t.numel()).view(t.sizes()));
    next += t.numel();
  }
  held_.push_back(whole);
  return {std::move(whole), std::move(parts)};
}

ConstBuffer Buffers::read_joined(at::TensorList tensors) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  auto [whole, parts] = joined(tensors);
  for (std::size_t i = 0; i < tensors.size(); ++i) parts[i].copy_(tensors[i]);
  return writable(whole);
}

Buffer Buffers::write_joined(at::TensorList tensors) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  auto [whole, parts] = joined(tensors);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    at::assert_no_internal_overlap(tensors[i]);
    later_.emplace_back(parts[i], tensors[i]);
  }
  return writable(whole);
}

Buffer Buffers::update(const at::Tensor& tensor, bool apart) {
  const Buffer memory = write(tensor, apart);
  if (!apart || !is_plain(tensor)) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    held_.back().copy_(tensor);
  }
  return memory;
}

void Buffers::copy_all_back() {
  const at::AutoDispatchBelowADInplaceOrView guard;
  for (auto& [from, to] : later_) to.copy_(from);
  later_.clear();
}

void Buffers::keep_for(const c10::Stream& stream) const {
  for (const at::Tensor& t : held_) device::keep_for(t.storage().data_ptr(), stream);
}

void Buffers::clear() {
  held_.clear();
  later_.clear();
}

}  // namespace sinew::torch_backend
