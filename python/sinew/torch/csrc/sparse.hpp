#pragma once

#include <ATen/core/Tensor.h>

#include <torch/csrc/distributed/c10d/Work.hpp>

#include "group.hpp"

namespace sinew::torch_backend {

/// Sums sparse COO tensors, whose numbers of entries may differ, over all ranks into the tensor of every rank.
/// It gathers first the shapes and then the entries of all ranks, and each rank adds them up.
/// The call is over when this returns, also if it is asynchronous: nobody knows the lengths of the entries before.
/// Errors: RuntimeError if the ranks' tensors differ in shape or dtype.
c10::intrusive_ptr<c10d::Work> all_reduce_sparse(Group& group, at::Tensor& tensor, std::chrono::milliseconds timeout);

}  // namespace sinew::torch_backend
