#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/common/call_group.hpp>
#include <sinew/parallel/modules/models/model.hpp>
#include <sinew/parallel/pipeline/pipeline_runner.hpp>

namespace sinew::parallel {

/// The functions by which a program gives a pipeline its input, and turns its output into a gradient.
template <class T>
struct PipelineEnds {
  /// The data of a microbatch, on every rank. Null: there are none, as for a model without tokens.
  std::function<MicroBatch(std::int32_t micro_batch)> batch{};
  /// Writes the first stage's input. Null if it takes no elements.
  std::function<void(std::int32_t micro_batch, T* x)> input{};
  /// Takes the last stage's output, and replaces it by the gradient of the loss. Null if it makes no elements.
  std::function<void(std::int32_t micro_batch, T* out)> loss{};
};

/// A model whose modules are the stages of a pipeline. The parameters of a rank's stages are one unit, whatever units
/// the modules have. Where parameters are sharded, the unit is gathered once for all microbatches. It is freed after
/// the last one. A step of training:
///
///     const TokenLoss loss = model.step();
///     auto owned = model.data().finish_backward();
///     optimizer.update(owned, scale);
///     model.data().updated();
///
/// Thread, lifetime: as Model; ends before `pipeline`.
/// Errors: as PipelineRunner and DataParallel. The constructor throws InvalidArgument on all ranks of the pipeline if
///         the number of modules on one of them is not that of its stages, or if an end's function is missing. Also if
///         two stages have a parameter of one name, or if ModelOptions::spread names no axis of several ranks. step()
///         throws InvalidArgument if a module has not reported a gradient in every pass (Pass::ready).
/// Memory: during step() a rank has the whole gradients of its stages, also under zero2.
template <class T>
class SINEW_API PipelinedModel final : private StageEngine {
 public:
  /// stages: this rank's modules, in the order of their stages in the schedule. Pass the schedule through
  /// with_messages() first.
  PipelinedModel(Mesh& mesh, CallGroup pipeline, PipelineSchedule schedule, std::vector<ModulePtr<T>> stages,
                 PipelineEnds<T> ends, Allocate allocate, const ModelOptions& options);
  PipelinedModel(const PipelinedModel&) = delete;
  PipelinedModel& operator=(const PipelinedModel&) = delete;

  /// Forward and backward passes of all microbatches. Returns the loss that this rank's modules have, such as
  /// PredictionModule in the last stage.
  TokenLoss step(double loss_scale = 1);
  /// Forward passes of all microbatches, within data().forward_only(). PipelineEnds::loss gets the outputs.
  TokenLoss evaluate();

  DataParallel& data() noexcept { return *parameters_.dense; }
  bool has_experts() const noexcept { return parameters_.experts != nullptr; }
  /// Data parallelism of experts. May be called only if there are experts.
  DataParallel& experts() noexcept { return *parameters_.experts; }
  /// Bytes of activations, of room for passes, and of data between stages.
  std::size_t held_bytes() const noexcept {
    return pool_.held_bytes() + training_->held_bytes() + evaluation_->held_bytes();
  }

 private:
  /// A microbatch on its way through a stage of this rank.
  struct Underway {
    Pass<T> pass;
    PooledArray<T> x, out;  // out: of the last stage, replaced by its gradient
    PooledArray<T> dout;    // kept for the weights' gradients
    Kept<T> kept;
  };
  using Key = std::pair<std::int32_t, std::int32_t>;  // stage, microbatch

  std::size_t output_bytes(std::int32_t stage) const override;
  std::size_t forward(std::int32_t stage, std::int32_t micro_batch, ConstBuffer in, Buffer out) override;
  std::size_t backward(std::int32_t stage, std::int32_t micro_batch, ConstBuffer dout, Buffer din) override;
  std::size_t input_gradient(std::int32_t stage, std::int32_t micro_batch, ConstBuffer dout, Buffer din) override;
  void weight_gradient(std::int32_t stage, std::int32_t micro_batch) override;

  Module<T>& module(std::int32_t stage) const { return *stages_.at(stage); }
  bool is_last(std::int32_t stage) const noexcept { return stage + 1 == schedule_.stages(); }
  void require_all_ready() const;
  const T* gradient_of_output(std::int32_t stage, Underway& u, ConstBuffer dout) const;

  PipelineSchedule schedule_;
  std::map<std::int32_t, ModulePtr<T>> stages_;  // by number
  PipelineEnds<T> ends_;
  ModelParameters parameters_;
  std::vector<DataParallel*> held_;  // those that have parameters here
  ArrayPool<T> pool_;
  std::map<Key, Underway> underway_;
  std::map<std::int32_t, std::int64_t> ready_;  // calls of Pass::ready in this step, by parameter
  bool evaluates_ = false;
  double loss_scale_ = 1;
  TokenLoss loss_;
  std::unique_ptr<PipelineRunner> training_, evaluation_;
};

extern template class PipelinedModel<float>;
extern template class PipelinedModel<double>;

}  // namespace sinew::parallel
