#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <sinew/core/buffer.hpp>

#include "tensors.hpp"

namespace sinew::torch_backend {

/// Lists of separate tensors, one for each rank, as sinew takes them: the memory of each tensor, without copies.
using ReadList = c10::SmallVector<ConstBuffer, 8>;
using WriteList = c10::SmallVector<Buffer, 8>;

ReadList read_list(Buffers& buffers, at::TensorList tensors);
/// Where two of the tensors share memory, or one shares memory with `inputs`, all are written to memory of their own
/// and copied to the tensors after the call, in their order: sinew reads and writes in any order.
/// `inputs`: what the call reads, but for a tensor that sinew lets lie at its place among the outputs.
WriteList write_list(Buffers& buffers, at::TensorList tensors, at::TensorList inputs);
/// The same for a call that writes one tensor.
inline Buffer write_one(Buffers& buffers, const at::Tensor& tensor, at::TensorList inputs) {
  return write_list(buffers, tensor, inputs).front();
}

/// `input` without what is the same memory as `place`.
at::TensorList elsewhere(const at::Tensor& input, const at::Tensor& place);

}  // namespace sinew::torch_backend
