#include <sinew/transports/nccl/calls/data_type.hpp>

namespace sinew::nccl {

DataType type_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::I8: return DataType::Int8;
    case DType::Bool:
    case DType::U8: return DataType::Uint8;
    case DType::I32: return DataType::Int32;
    case DType::U32: return DataType::Uint32;
    case DType::I64: return DataType::Int64;
    case DType::U64: return DataType::Uint64;
    case DType::F16: return DataType::Float16;
    case DType::BF16: return DataType::Bfloat16;
    case DType::F32: return DataType::Float32;
    case DType::F64: return DataType::Float64;
    case DType::F8E4M3: return DataType::Float8e4m3;
    case DType::F8E5M2: return DataType::Float8e5m2;
    case DType::I16:
    case DType::U16:
      break;  // NCCL has no such type. can_run refuses to reduce it, and type_to_move says how it is moved.
  }
  return DataType::Uint8;
}

DataType type_to_move(DType dtype) noexcept {
  if (size_of(dtype) == 2 && is_integer(dtype)) return DataType::Float16;  // NCCL copies its bits unchanged
  return is_float8(dtype) ? DataType::Uint8 : type_of(dtype);
}

}  // namespace sinew::nccl
