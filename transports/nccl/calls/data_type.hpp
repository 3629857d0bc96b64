#pragma once

#include <sinew/core/dtype.hpp>
#include <sinew/transports/nccl/library/nccl_api.hpp>

namespace sinew::nccl {

/// NCCL's type that a call computes with.
DataType type_of(DType dtype) noexcept;
/// The type that elements are moved as: 8-bit floats as bytes, because no version refuses those.
DataType type_to_move(DType dtype) noexcept;

/// e4m3 or e5m2.
constexpr bool is_float8(DType dtype) noexcept { return dtype == DType::F8E4M3 || dtype == DType::F8E5M2; }

}  // namespace sinew::nccl
