#pragma once

// Layers of a model as values that can be put together. The room holds what a module is, its passes, the list of
// parameters, and modules that are put together from others. The room `layers` within it holds modules that compute.
// The room `models` holds models made of modules, under data parallelism and in a pipeline.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/modules/array_counts.hpp>
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
/// Arrays are in the memory of Pass::device(). A module computes there only if runs_on_devices() says so.
/// Shape:    x is in_elements() long, out is out_elements() long, on this rank, for one microbatch. dx and dout are
///           shaped as x and out. T: float or double.
/// Thread:   the World's.
/// Lifetime: the backward pass gets the elements of x again, perhaps in another array. The communicators, the Blas and
///           whatever else a module was made with outlive it.
/// Errors:   those of the layers that the module is made of.
template <class T>
class Module {
 public:
  virtual ~Module() = default;

  virtual std::int64_t in_elements() const = 0;
  virtual std::int64_t out_elements() const = 0;

  // The six functions below plan memory before there is any. They count the arrays that the module and its parts have
  // from the pass's pool. Those for parameters of another dtype than T are left out, and small ones may be, too.
  /// The arrays of Kept after a forward pass. Experts keep a number of rows that the router decides. They answer for
  /// tokens that are spread evenly.
  virtual ArrayCounts kept_arrays() const { return {}; }
  /// Kept::gradients between both halves of a backward pass, and arrays that were made again for the second half.
  virtual ArrayCounts deferred_arrays() const { return {}; }
  /// The most arrays that there are at a time in a forward pass. keeps: Pass::keeps.
  virtual ArrayCounts forward_arrays(bool /*keeps*/) const { return kept_arrays(); }
  /// The same in a backward pass, at whose beginning there are the kept arrays.
  virtual ArrayCounts backward_arrays() const { return kept_arrays() + deferred_arrays(); }
  /// The same in the first half of a backward pass, after which there are the kept and the deferred arrays.
  virtual ArrayCounts first_half_arrays() const { return backward_arrays(); }
  /// The same in the second half, at whose beginning there are the kept and the deferred arrays.
  virtual ArrayCounts second_half_arrays() const { return backward_arrays(); }
  /// Kept::bytes() after a forward pass.
  std::size_t kept_bytes() const { return static_cast<std::size_t>(kept_arrays().elements()) * sizeof(T); }

  /// Adds the module's parameters to the list, and keeps their numbers. Called once, before any pass.
  virtual void declare(ParameterList& list) = 0;

  /// The name of the module's parameters or of its unit. Policies choose modules by it. Empty: the module has none.
  virtual std::string_view name() const { return {}; }
  /// Calls f with each module that this one is made of. f may put another one in its place, before any pass.
  virtual void for_each_part(const std::function<void(std::unique_ptr<Module>& part)>& /*f*/) {}

  /// true: the passes enqueue work on the stream of Pass::device() if there is one, and the host touches none of their
  /// arrays. It does not speak for the parts.
  virtual bool runs_on_devices() const { return false; }
  /// false: the backward pass does not read x, which may then be null there. So nobody needs to keep x for it.
  virtual bool needs_input() const { return true; }
  /// true: remake() is cheap, so that the output need not be kept for the module behind this one.
  virtual bool can_remake() const { return false; }
  /// Writes the output of a forward pass again, equal to the last bit, and sends nothing. kept: what that pass left.
  /// Without an override the forward pass is made again.
  virtual void remake(Pass<T>& pass, const T* x, const Kept<T>& /*kept*/, T* out) {
    Kept<T> unused;
    forward(pass, x, unused, out);
  }
  /// true: arrays that are cheap to make again are not kept (Recompute::Selective). It does not reach the parts.
  virtual void drop_cheap_arrays(bool /*drop*/) {}

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
