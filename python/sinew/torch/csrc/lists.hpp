#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include <sinew/collectives/parts.hpp>
#include <sinew/core/buffer.hpp>

#include "tensors.hpp"

namespace sinew::torch_backend {

/// A list of separate tensors, one for each rank, as sinew takes it: one buffer in which the tensors lie one behind the
/// other.
/// Shape: all tensors have one dtype; their sizes may differ.
/// Cost:  one copy of the list before the call if it is read, one after the call if it is written.
struct ListBuffer {
  Buffer memory{};
  std::vector<std::uint64_t> counts;  ///< elements of each tensor, in units of Element::dtype
  bool equal = true;                  ///< all counts are the same

  Parts parts() const noexcept { return {counts, {}}; }
};

ListBuffer read_list(Buffers& buffers, at::TensorList tensors);
ListBuffer write_list(Buffers& buffers, at::TensorList tensors);

}  // namespace sinew::torch_backend
