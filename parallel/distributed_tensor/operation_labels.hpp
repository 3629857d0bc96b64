#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <sinew/core/error.hpp>
#include <sinew/parallel/distributed_tensor/operation.hpp>

// Parts of rules, and checks of shapes, that several operations share.
namespace sinew::parallel {

/// Hands out letters for labels, each once.
/// Errors: InvalidArgument if an operation needs more than 52 of them.
class LabelLetters {
 public:
  char next();
  std::string next(std::size_t count);

 private:
  int given_ = 0;
};

/// The labels of tensors that are broadcast against each other, aligned at their last dimensions.
struct BroadcastLabels {
  std::vector<std::string> tensors;  ///< for each tensor
  std::string whole;                 ///< labels of dimensions of one place that other tensors have more of
  std::vector<std::int64_t> shape;   ///< of all tensors together
  std::string labels;                ///< of that shape
};
/// Errors: InvalidArgument naming the operation and both shapes, if an extent is neither 1 nor that of the others.
BroadcastLabels broadcast_labels(std::string_view name, std::span<const TensorSpec> specs,
                                 std::span<const std::vector<std::int64_t>> shapes, LabelLetters& letters);

/// "ab,b->a": `separator` between operands is ',' or '+'.
std::string join_labels(std::span<const std::string> operands, std::span<const std::string> results,
                        char separator = ',');

/// Throws unless the dtype is f64, f32, bf16 or f16, and equal in all specs.
void require_float_dtypes(std::string_view name, std::span<const TensorSpec> specs);

/// The dimension counted from 0; negative numbers count from the last one.
/// Errors: InvalidArgument naming the operation, the tensor, the dimension asked for and those that it has.
std::size_t dimension_of(std::string_view name, const TensorSpec& spec, int dim);

[[noreturn]] void refuse_operation(std::string_view name, const std::string& fault);

/// "[2, 3]".
std::string shape_text(std::span<const std::int64_t> shape);

/// The dtype in which an operation on tensors of this dtype computes: f64 or f32.
constexpr DType computed_dtype(DType dtype) noexcept { return dtype == DType::F64 ? DType::F64 : DType::F32; }

}  // namespace sinew::parallel
