#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <c10/util/SmallVector.h>

#include <cstddef>
#include <cstdint>
#include <optional>
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

/// Errors: RuntimeError if the tensor is not a dense tensor in the memory of the CPU or of a CUDA device.
void require_dense(const at::Tensor& tensor, const char* function);
void require_dense(at::TensorList tensors, const char* function);

/// Errors: RuntimeError that names the first tensor whose dtype or sizes differ from the expected ones.
void require_same(at::TensorList tensors, const at::Tensor& like, const char* function);
/// The same for the dtypes alone.
void require_same_dtype(at::TensorList tensors, at::ScalarType type, const char* function);

/// The memory that a call works on. It keeps the tensors alive until the call has ended.
/// A tensor that is not contiguous is copied to contiguous memory before the call and copied back after the call. On a
/// device both copies are put on the stream of the thread that asks for them.
/// Errors: RuntimeError if the tensors of one call lie on different devices.
class Buffers {
 public:
  /// Memory that the call reads.
  ConstBuffer read(const at::Tensor& tensor);
  /// Memory that the call writes completely. `apart`: the tensor shares no memory with others of the call. Else the
  /// call writes to memory of its own, which is copied to the tensor after the call, in the order of these requests.
  /// Errors: RuntimeError if several elements of the tensor share memory.
  Buffer write(const at::Tensor& tensor, bool apart = true);
  /// The same of several tensors, one behind the other in one piece of memory.
  ConstBuffer read_joined(at::TensorList tensors);
  Buffer write_joined(at::TensorList tensors);
  /// Memory that the call reads and writes. `apart`, errors: as write().
  Buffer update(const at::Tensor& tensor, bool apart = true);

  /// The device of the tensors; nothing: they are in CPU memory, or there are none.
  std::optional<c10::Device> device() const noexcept { return device_; }
  /// There are copies to make after the call.
  bool copies_back() const noexcept { return !later_.empty(); }
  /// Makes the copies that were asked for, once. Call it after the call has succeeded.
  void copy_back() {
    if (copies_back()) copy_all_back();
  }
  /// Keeps torch from using memory of a device again until this stream has run all that it holds now.
  void keep_for(const c10::Stream& stream) const;
  /// Lets go of all tensors.
  void clear();

 private:
  void copy_all_back();
  Buffer write_later(const at::Tensor& tensor);
  void require_one_device(const at::Tensor& tensor);
  std::pair<at::Tensor, std::vector<at::Tensor>> joined(at::TensorList tensors);

  std::optional<c10::Device> device_;
  c10::SmallVector<at::Tensor, 2> held_;
  std::vector<std::pair<at::Tensor, at::Tensor>> later_;
};

}  // namespace sinew::torch_backend
