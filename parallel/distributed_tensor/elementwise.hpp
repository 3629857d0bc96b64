#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/distributed_tensor/distributed_tensor.hpp>
#include <sinew/parallel/distributed_tensor/operation.hpp>

// Functions of each element. A linear function keeps a Partial(sum). Before any other function the Partial is reduced.
// Errors: InvalidArgument on all ranks alike, if shapes do not fit or if dtypes or meshes differ. It is thrown before
//         anything is sent. Otherwise as the collectives.
namespace sinew::parallel {

/// Gelu is the form with tanh. Negate is linear.
enum class ElementFunction : std::uint8_t { Negate, Exp, Log, Sqrt, Square, Tanh, Relu, Gelu };
SINEW_API DistributedTensor elementwise(ElementFunction function, const DistributedTensor& x, const CallOptions& = {});
/// The gradient of x: dout times the slope at x. It is linear in dout.
SINEW_API DistributedTensor elementwise_backward(ElementFunction function, const DistributedTensor& dout,
                                                 const DistributedTensor& x, const CallOptions& = {});

/// A function of the caller's, and its slope. Errors and explanations show the name.
/// Errors: what a function throws ends the World, because other ranks may wait for this one.
struct UserElementFunction {
  std::string name{};
  std::function<double(double)> value{}, slope{};
};
SINEW_API DistributedTensor elementwise(const UserElementFunction& function, const DistributedTensor& x,
                                        const CallOptions& = {});
SINEW_API DistributedTensor elementwise_backward(const UserElementFunction& function, const DistributedTensor& dout,
                                                 const DistributedTensor& x, const CallOptions& = {});

/// factor * x. It is linear.
SINEW_API DistributedTensor scale(const DistributedTensor& x, double factor, const CallOptions& = {});

/// Functions of two tensors that are broadcast against each other: dimensions of one place are repeated, and leading
/// ones may be missing. Add and Subtract keep Partials of both operands, unless a dimension of one place is repeated.
/// They make a whole operand Partial if this costs no bytes now or later. Multiply is linear in each operand, Divide in
/// the first one.
enum class BinaryFunction : std::uint8_t { Add, Subtract, Multiply, Divide };
SINEW_API DistributedTensor elementwise(BinaryFunction function, const DistributedTensor& a, const DistributedTensor& b,
                                        const CallOptions& = {});
/// The operation that elementwise() runs, for plan_operation() and explain().
SINEW_API Operation elementwise_operation(BinaryFunction function, const TensorSpec& a, const TensorSpec& b);

/// The gradients of both operands, of their shapes. Sums over repeated dimensions are made, and may be Partial.
struct BinaryGradients {
  DistributedTensor a, b;
};
SINEW_API BinaryGradients elementwise_backward(BinaryFunction function, const DistributedTensor& dout,
                                               const DistributedTensor& a, const DistributedTensor& b,
                                               const CallOptions& = {});

/// to = to + factor * x. `to` keeps its placements, and x is brought to them. Optimizers update parameters with it.
/// Errors: also InvalidArgument if `to` has a Partial that is no sum.
SINEW_API void add_scaled(DistributedTensor& to, double factor, const DistributedTensor& x, const CallOptions& = {});

}  // namespace sinew::parallel
