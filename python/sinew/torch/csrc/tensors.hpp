#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <cstddef>
#include <cstdint>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <utility>
#include <vector>

#include <sinew/core/buffer.hpp>
#include <sinew/core/dtype.hpp>
#include <sinew/core/numeric/reduce.hpp>

namespace sinew::torch_backend {

/// How sinew moves the elements of a dtype of torch. An element of torch consists of `each` elements of `dtype`: of two
/// reals if it is complex, and of bytes if sinew has no such dtype.
struct Element {
  DType dtype = DType::U8;
  std::uint32_t each = 1;
};
Element moved_element(at::ScalarType type);

/// How sinew reduces the elements of a dtype of torch.
struct Reduction {
  DType dtype = DType::F32;
  ReduceOp op = ReduceOp::Sum;
  double factor = 1.0;  ///< of PreMulSum
};

/// Errors: RuntimeError that names the operator and the dtype if the result is not defined: averages of integers and
///         bool, orders of complex numbers, bitwise operators on floats, any operator on a dtype without arithmetic.
///         `function` is the name of the function that the user called.
Reduction reduction_of(at::ScalarType type, const c10d::ReduceOp& op, const char* function);

/// Errors: RuntimeError if the tensor is not a dense tensor in CPU memory.
void require_dense_cpu(const at::Tensor& tensor, const char* function);
void require_dense_cpu(at::TensorList tensors, const char* function);

/// Errors: RuntimeError that names the first tensor whose dtype or sizes differ from the expected ones.
void require_same(at::TensorList tensors, const at::Tensor& like, const char* function);
/// The same for the dtypes alone.
void require_same_dtype(at::TensorList tensors, at::ScalarType type, const char* function);

/// The memory that a call works on. It keeps the tensors alive until the call has ended.
/// A tensor that is not contiguous is copied to contiguous memory before the call and copied back after the call.
class Buffers {
 public:
  /// Memory that the call reads.
  ConstBuffer read(const at::Tensor& tensor);
  /// Memory that the call writes completely.
  /// Errors: RuntimeError if several elements of the tensor share memory.
  Buffer write(const at::Tensor& tensor);
  /// Memory that the call writes completely and that is copied to the tensor after the call. Errors: as write().
  Buffer write_later(const at::Tensor& tensor);
  /// Memory that the call reads and writes. Errors: as write().
  Buffer update(const at::Tensor& tensor);

  /// Makes the copies that were asked for. Call it once, after the call has succeeded.
  void copy_back() {
    if (!later_.empty()) copy_all_back();
  }
  /// Lets go of all tensors.
  void clear();

 private:
  void copy_all_back();

  c10::SmallVector<at::Tensor, 2> held_;
  std::vector<std::pair<at::Tensor, at::Tensor>> later_;
};

}  // namespace sinew::torch_backend
