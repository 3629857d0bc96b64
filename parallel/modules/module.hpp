#pragma once

// Layers of a model as values that can be put together. The room holds what a module is, its passes, the list of
// parameters, and modules that are put together from others. The room `layers` within it holds modules that compute.
// The room `models` holds models made of modules, under data parallelism and in a pipeline.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/modules/array_pool.hpp>
#include <sinew/parallel/modules/parameter_list.hpp>
#include <sinew/parallel/modules/pass.hpp>

namespace sinew::parallel {

/// The arrays that one forward pass of a module leaves for its backward pass, and those of the module's parts.
template <class T>
struct Kept {
  std::vector<PooledArray<T>> arrays{};
  std::vector<Kept> parts{};
  /// Something of another kind, such as the way of tokens to their experts.
  std::shared_ptr<void> other{};
  /// Gradients that input_gradient() leaves for weight_gradient().
  std::vector<PooledArray<T>> gradients{};

  /// Bytes of all arrays, those of the parts included.
  std::size_t bytes() const noexcept {
    std::size_t sum = 0;
    for (const auto* list : {&arrays, &gradients}) {
      for (const PooledArray<T>& array : *list) sum += array.size() * sizeof(T);
    }
    for (const Kept& part : parts) sum += part.bytes();
    return sum;
  }
};

/// A layer, or layers that were put together. One object serves all microbatches: what belongs to one of them is in its
/// Kept and its Pass. A module of a user's own overrides the five functions, and computes as it likes. Modules that
/// share a layer between ranks exchange data in all three passes, so all these ranks call them in the same order.
/// Shape:    x is in_elements() long, out is out_elements() long, on this rank, for one microbatch. dx and dout are
///           shaped as x and out. T: float or double.
/// Thread:   the World's.
/// Lifetime: x of a forward pass stays as it is until its backward pass has ended. The communicators, the Blas and
///           whatever else a module was made with outlive it.
/// Errors:   those of the layers that the module is made of.
template <class T>
class Module {
 public:
  virtual ~Module() = default;

  virtual std::int64_t in_elements() const = 0;
  virtual std::int64_t out_elements() const = 0;
  /// Adds the module's parameters to the list, and keeps their numbers. Called once, before any pass.
  virtual void declare(ParameterList& list) = 0;

  virtual void forward(Pass<T>& pass, const T* x, Kept<T>& kept, T* out) = 0;
  /// The first half of the backward pass. Writes dx, unless it is null because nobody needs it.
  virtual void input_gradient(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout, T* dx) = 0;
  /// The second half, after the first one, with the same arguments. Adds the gradients of the parameters, and reports
  /// them (Pass::ready).
  virtual void weight_gradient(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout) = 0;
  /// Both halves. A module that has something to do while its exchanges go on overrides this.
  virtual void backward(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout, T* dx) {
    input_gradient(pass, x, kept, dout, dx);
    weight_gradient(pass, x, kept, dout);
  }
};

template <class T>
using ModulePtr = std::unique_ptr<Module<T>>;

}  // namespace sinew::parallel
