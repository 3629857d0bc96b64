#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <type_traits>

#include <sinew/core/base/export.hpp>
#include <sinew/core/dtype.hpp>
#include <sinew/parallel/data_parallel/data_parallel.hpp>
#include <sinew/parallel/modules/array_pool.hpp>
#include <sinew/parallel/tensor/vocabulary_cross_entropy.hpp>

namespace sinew::parallel {

/// The data of one microbatch, beside the activations that modules hand on.
/// Lifetime: the arrays stay as they are until the backward pass has ended. In a pipeline, until the step has ended.
struct MicroBatch {
  std::span<const std::int64_t> tokens{};   ///< for embeddings: all rows of the tensor-parallel group
  std::span<const std::int64_t> targets{};  ///< for predictions, likewise
};

/// One pass of one microbatch through modules: its data, and access to parameters and gradients.
/// Parameters may be of f64, f32, bf16 or f16. Modules see them as T. Gradients are added in the dtype of the record.
template <class T>
class SINEW_API Pass {
 public:
  /// experts: data parallelism of experts; null if no module has experts.
  /// reports: gradients are reported to data parallelism as they are complete. Units are opened and closed as modules
  /// enter and leave them. false: the caller of the pass does both, as in a pipeline.
  /// counts: calls of ready() are counted there by parameter, unless it is null.
  Pass(DataParallel& data, DataParallel* experts, ArrayPool<T>& pool, bool reports,
       std::map<std::int32_t, std::int64_t>* counts = nullptr)
      : data_(&data), experts_(experts), pool_(&pool), reports_(reports), counts_(counts) {}

  MicroBatch batch{};
  TokenLoss loss{};       ///< of the predictions of this pass
  double loss_scale = 1;  ///< by which the gradients of the loss are multiplied

  PooledArray<T> take(std::int64_t elements) { return pool_->take(elements); }

  /// A parameter's values on this rank.
  class Values {
   public:
    const T* data() const noexcept { return data_; }

   private:
    friend class Pass;
    const T* data_ = nullptr;
    PooledArray<T> converted_{};  // where the parameter is of another type
  };
  Values values(std::int32_t parameter);
  /// write(to, beta) writes beta * to + the gradient, for all elements of the parameter on this rank. beta is 0 or 1.
  /// With 0, `to` has no values yet, and must not be read.
  void add_gradient(std::int32_t parameter, const std::function<void(T* to, T beta)>& write);
  /// The module has added all of the gradient in this pass. Called once in a pass for each parameter.
  void ready(std::int32_t parameter) {
    if (counts_ != nullptr) ++(*counts_)[parameter];
    if (reports_) home(parameter).gradient_ready(number_in(parameter));
  }

  // The calls of a unit of data parallelism. dense, experts: whether the unit has parameters of this kind.
  void enter_forward(const std::string& unit, bool dense, bool experts) {
    if (reports_ && dense) data_->before_forward(data_->unit(unit));
    if (reports_ && experts) experts_->before_forward(experts_->unit(unit));
  }
  void leave_forward(const std::string& unit, bool dense, bool experts) {
    if (reports_ && dense) data_->after_forward(data_->unit(unit));
    if (reports_ && experts) experts_->after_forward(experts_->unit(unit));
  }
  void enter_backward(const std::string& unit, bool dense, bool experts) {
    if (reports_ && dense) data_->before_backward(data_->unit(unit));
    if (reports_ && experts) experts_->before_backward(experts_->unit(unit));
  }
  void leave_backward(const std::string& unit, bool dense, bool experts) {
    if (reports_ && dense) data_->after_backward(data_->unit(unit));
    if (reports_ && experts) experts_->after_backward(experts_->unit(unit));
  }

 private:
  /// A negative number is one of experts (ParameterList::add_of_experts).
  DataParallel& home(std::int32_t parameter) const noexcept { return parameter < 0 ? *experts_ : *data_; }
  static std::int32_t number_in(std::int32_t parameter) noexcept { return parameter < 0 ? -1 - parameter : parameter; }

  DataParallel* data_;
  DataParallel* experts_;
  ArrayPool<T>* pool_;
  bool reports_;
  std::map<std::int32_t, std::int64_t>* counts_;
};

extern template class Pass<float>;
extern template class Pass<double>;

}  // namespace sinew::parallel
