#include "arguments.hpp"

#include <c10/util/StringUtil.h>

#include <cstddef>
#include <string>

#include "errors.hpp"
#include "tensors.hpp"

namespace sinew::torch_backend::arguments {

void require_root(const Operation& operation, std::int64_t root, int size) {
  if (root < 0 || root >= size)
    reject(operation.function, c10::str("invalid root rank: ", root, ", expected 0 to ", size - 1));
}

const at::Tensor& only(const Operation& operation, at::TensorList tensors, const char* what) {
  if (tensors.size() != 1) {
    reject(operation.function,
           c10::str("requires a single-element ", what, "tensor list, found ", tensors.size(), " tensors"));
  }
  require_dense(tensors.front(), operation.function);
  return tensors.front();
}

void require_equal_lists(const Operation& operation, std::size_t outputs, std::size_t inputs) {
  if (inputs == 0) reject(operation.function, "requires non-empty input tensor list");
  if (outputs != inputs) {
    reject(operation.function, c10::str("requires input/output tensor lists to have the same length, found ", inputs,
                                        " inputs and ", outputs, " outputs"));
  }
}

void require_one_per_rank(const Operation& operation, at::TensorList list, const at::Tensor& like, int size,
                          const char* what) {
  if (list.size() != static_cast<std::size_t>(size)) {
    reject(operation.function, c10::str("Incorrect ", what, " list size ", list.size(), ". ", what,
                                        " list size should be ", size, ", same as size of the process group."));
  }
  require_dense(list, operation.function);
  require_same_dtype(list, like.scalar_type(), operation.function);
}

void require_parts(const Operation& operation, const at::Tensor& all, const at::Tensor& part, int size) {
  if (all.scalar_type() != part.scalar_type()) {
    reject(operation.function, c10::str("input and output must have the same dtype, found ",
                                        c10::toString(part.scalar_type()), " and ", c10::toString(all.scalar_type())));
  }
  if (all.numel() != part.numel() * size) {
    reject(operation.function, c10::str("the larger tensor has ", all.numel(), " elements and the smaller one ",
                                        part.numel(), ": expected ", size, " times as many, one part for each rank"));
  }
}

std::uint32_t tag(const Operation& operation, int tag) {
  if (tag < 0) reject(operation.function, c10::str("Tag must be nonnegative, found ", tag));
  return static_cast<std::uint32_t>(tag);
}

}  // namespace sinew::torch_backend::arguments
