#pragma once

#include <sinew/core/dtype.hpp>
#include <sinew/transports/nccl/library/nccl_api.hpp>

namespace sinew::nccl {

/// The NCCL type with which elements are reduced.
DataType type_of(DType dtype) noexcept;
/// The NCCL type as which elements are copied. 8-bit floats are copied as bytes, which every version of NCCL accepts.
DataType type_to_move(DType dtype) noexcept;

/// e4m3 or e5m2.
constexpr bool is_float8(DType dtype) noexcept { return dtype == DType::F8E4M3 || dtype == DType::F8E5M2; }

}  // namespace sinew::nccl
