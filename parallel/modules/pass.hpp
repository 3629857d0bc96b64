#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/dtype.hpp>
#include <sinew/parallel/compute/layer_math.hpp>
#include <sinew/parallel/context/attention_mask.hpp>
#include <sinew/parallel/data_parallel/data_parallel.hpp>
#include <sinew/parallel/modules/array_pool.hpp>
#include <sinew/parallel/modules/parameter_list.hpp>
#include <sinew/parallel/tensor/vocabulary_cross_entropy.hpp>

namespace sinew::parallel {

template <class T>
class SampleSums;

/// The data of one microbatch, beside the activations that modules hand on.
/// Lifetime: the arrays stay as they are until the backward pass has ended. In a pipeline, until the step has ended.
struct MicroBatch {
  std::span<const std::int64_t> tokens{};   ///< for embeddings: all rows of the tensor-parallel group
  std::span<const std::int64_t> targets{};  ///< for predictions, likewise
  /// For attention: one mask, or one for each sequence. {}: the mask of the attention's own shape.
  std::span<const AttentionMask> masks{};
  std::uint64_t step = 0;         ///< for dropout: the number of the step
  std::int64_t first_sample = 0;  ///< for dropout and SampleSums: the number of the first sample in the global batch
  std::int64_t samples = 0;       ///< for SampleSums: samples of this microbatch
};

/// Copies of parameters that other stages of a pipeline have (ParameterList::add_copy).
struct ParameterCopies {
  struct Copy {
    DataParameter record{};
    std::vector<std::byte> value{}, gradient{};  ///< of the record's dtypes
  };
  std::vector<Copy> copies{};  ///< in the order in which they were added
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
      : data_(&data),
        experts_(experts),
        pool_(&pool),
        math_(layer_math<T>(pool.device())),
        reports_(reports),
        counts_(counts) {}

  /// Called where a module enters a unit, forward and backward, if the caller of the pass opens units. Empty: it has
  /// opened all units before the pass.
  std::function<void(const std::string& unit, bool dense, bool experts)> entered{};
  MicroBatch batch{};
  TokenLoss loss{};                    ///< of the predictions of this pass
  double loss_scale = 1;               ///< by which the gradients of the loss are multiplied
  bool repeats = false;                ///< this forward pass repeats one that has been counted (Recomputed)
  SampleSums<T>* by_sample = nullptr;  ///< null: gradients are added up in the fastest way
  ParameterCopies* copies = nullptr;   ///< of a pipeline's stages; null: there are none
  /// Wall time in which this pass waits for exchanges of data parallelism is added there, unless it is null.
  std::chrono::nanoseconds* waited = nullptr;
  /// false: no backward pass follows the forward pass, so that arrays may be freed as soon as they have been read.
  bool keeps = true;

  /// The device in whose memory all arrays are. Work on them is put on its stream. {}: the host.
  const ComputeDevice& device() const noexcept { return pool_->device(); }
  /// Arithmetic on these arrays.
  const LayerMath<T>& math() const noexcept { return *math_; }

  /// varying: as ArrayPool::take() has it.
  PooledArray<T> take(std::int64_t elements, std::int64_t varying = 0) { return pool_->take(elements, varying); }

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
    if (ParameterList::is_copy(parameter)) return;
    if (counts_ != nullptr) ++(*counts_)[parameter];
    if (reports_) timed([&] { home(parameter).gradient_ready(number_in(parameter)); });
  }

  /// Called before the host waits for the device's stream, as DataParallel::settle().
  void settle() {
    data_->settle();
    if (experts_ != nullptr) experts_->settle();
  }

  // The calls of a unit of data parallelism. dense, experts: whether the unit has parameters of this kind.
  void enter_forward(const std::string& unit, bool dense, bool experts) {
    if (entered) entered(unit, dense, experts);
    open_or_close(unit, dense, experts, &DataParallel::before_forward);
  }
  void leave_forward(const std::string& unit, bool dense, bool experts) {
    open_or_close(unit, dense, experts, &DataParallel::after_forward);
  }
  void enter_backward(const std::string& unit, bool dense, bool experts) {
    if (entered) entered(unit, dense, experts);
    open_or_close(unit, dense, experts, &DataParallel::before_backward);
  }
  /// The second half of a backward pass whose first half has entered the unit.
  void enter_weight_gradient(const std::string& unit, bool dense, bool experts) {
    if (entered) entered(unit, dense, experts);
  }
  void leave_backward(const std::string& unit, bool dense, bool experts) {
    open_or_close(unit, dense, experts, &DataParallel::after_backward);
  }

 private:
  void open_or_close(const std::string& unit, bool dense, bool experts, void (DataParallel::*call)(std::int32_t)) {
    if (!reports_) return;
    timed([&] {
      if (dense) (data_->*call)(data_->unit(unit));
      if (experts) (experts_->*call)(experts_->unit(unit));
    });
  }
  template <class Call>
  void timed(const Call& call) {
    if (waited == nullptr) return call();
    const auto begin = std::chrono::steady_clock::now();
    call();
    *waited += std::chrono::steady_clock::now() - begin;
  }
  /// A parameter's record, its values or its gradient.
  struct Found {
    const DataParameter& record;
    Buffer data;
  };
  Found find(std::int32_t parameter, bool gradient) const;
  /// A negative number is one of experts (ParameterList::add_of_experts).
  DataParallel& home(std::int32_t parameter) const noexcept { return parameter < 0 ? *experts_ : *data_; }
  static std::int32_t number_in(std::int32_t parameter) noexcept { return parameter < 0 ? -1 - parameter : parameter; }

  DataParallel* data_;
  DataParallel* experts_;
  ArrayPool<T>* pool_;
  std::shared_ptr<const LayerMath<T>> math_;
  bool reports_;
  std::map<std::int32_t, std::int64_t>* counts_;
};

extern template class Pass<float>;
extern template class Pass<double>;

}  // namespace sinew::parallel
