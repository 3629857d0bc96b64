#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/common/call_group.hpp>
#include <sinew/parallel/modules/models/model.hpp>
#include <sinew/parallel/modules/models/stage_copies.hpp>
#include <sinew/parallel/modules/sample_sums.hpp>
#include <sinew/parallel/pipeline/pipeline_runner.hpp>
#include <sinew/parallel/sharded_stages/unit_order_of.hpp>

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

/// The unit of a stage's parameters outside Units, where `unit` is that of the model.
SINEW_API std::string stage_unit(const std::string& unit, std::int32_t stage);

/// A model whose modules are the stages of a pipeline. The schedule says when the parameters of a stage are gathered
/// and freed, and when its gradients are summed: Unshard, Reshard and Reduce (passes.hpp). These go on while other
/// stages compute. Each Unit within a stage is gathered and summed by itself, so that the stage computes when its first
/// unit is there.
/// A schedule without these actions gets the ones that choose_sharding() chooses. The budget is
/// DataOptions::gathered_bytes, for gathered parameters and whole gradients of a rank. With 0 there is no limit, and
/// each stage is gathered once for all microbatches. If the budget asks for it, units are gathered one after the other
/// in each pass of the stage, one ahead of its use. A step of training:
///
///     const TokenLoss loss = model.step();
///     auto owned = model.data().finish_backward();
///     optimizer.update(owned, scale);
///     model.data().updated();
///
/// Thread, lifetime: as Model; ends before `pipeline`.
/// Errors: as PipelineRunner and DataParallel. The constructor throws InvalidArgument on all ranks of the pipeline if
///         the number of modules on one of them is not that of its stages, or if an end's function is missing. Also if
///         two stages have a parameter of one name, or if ModelOptions::spread names no axis of several ranks. Also if
///         a name of a policy stands for no module of any stage. step() throws InvalidArgument if a module has not
///         reported a gradient in every pass (Pass::ready). The constructor also throws for a budget that no way of
///         sharding fits, and for one beside a schedule that has such actions.
/// Memory: under zero2 and zero3 the whole gradients of a stage exist from its first backward pass to the end of its
///         Reduce only. data().planned() has the most bytes of gathered parameters and whole gradients.
template <class T>
class SINEW_API PipelinedModel final : private StageEngine {
 public:
  /// stages: this rank's modules, in the order of their stages in the schedule. Pass the schedule through
  /// with_messages() first.
  PipelinedModel(Mesh& mesh, CallGroup pipeline, PipelineSchedule schedule, std::vector<ModulePtr<T>> stages,
                 PipelineEnds<T> ends, Allocate allocate, const ModelOptions& options);
  /// Stages whose parameters others have made, from the lists of equal modules: a Job from EngineFacts::parameters.
  /// Units are called as stage_unit() says. experts: null if there are none. schedule: Job::schedule().
  /// Lifetime: ends before `dense` and `experts`.
  /// Errors:   also InvalidArgument if the modules have other parameters.
  PipelinedModel(DataParallel& dense, DataParallel* experts, CallGroup pipeline, PipelineSchedule schedule,
                 std::vector<ModulePtr<T>> stages, PipelineEnds<T> ends, const DataParameter& like);
  PipelinedModel(const PipelinedModel&) = delete;
  PipelinedModel& operator=(const PipelinedModel&) = delete;

  /// Forward and backward passes of all microbatches. Returns the loss that this rank's modules have, such as
  /// PredictionModule in the last stage.
  TokenLoss step(double loss_scale = 1);
  /// Forward passes of all microbatches, within data().forward_only(). It ends with finish_forward() of data() and of
  /// experts(). PipelineEnds::loss gets the outputs.
  TokenLoss evaluate();

  DataParallel& data() noexcept { return *parameters_.dense; }
  bool has_experts() const noexcept { return parameters_.experts != nullptr; }
  /// Data parallelism of experts. May be called only if there are experts.
  DataParallel& experts() noexcept { return *parameters_.experts; }
  /// Gradients of later steps are layout-invariant. null: they are added up in the fastest way again.
  void set_sample_sums(SampleSums<T>* sums) noexcept { sums_ = sums; }
  /// Time that the stages of this rank have computed, and that it has waited for others.
  const PipelineRunner& runner() const noexcept { return *training_; }
  /// The schedule, with the actions on parameters that it was given or has got.
  const PipelineSchedule& schedule() const noexcept { return schedule_; }
  /// Why a schedule without actions on parameters has got the ones that it has. Empty: it had them.
  const std::string& why() const noexcept { return why_; }
  /// Bytes of activations and of room for passes. Those of data between stages, and of copies of other stages'
  /// parameters, are included. Memory that layers share is not: SharedAttention::held_bytes() and the like.
  std::size_t held_bytes() const noexcept {
    return pool_.held_bytes() + training_->held_bytes() + evaluation_->held_bytes() + copies_->held_bytes();
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
  void unshard(std::int32_t stage) override;
  void reshard(std::int32_t stage) override;
  void reduce(std::int32_t stage) override;

  void make_runners(CallGroup pipeline);
  Pass<T> new_pass();
  Module<T>& module(std::int32_t stage) const { return *stages_.at(stage); }
  bool is_last(std::int32_t stage) const noexcept { return stage + 1 == schedule_.stages(); }
  /// Data parallelism of one kind of parameters that this rank has, and the units of each stage.
  struct HeldStages {
    DataParallel* data;
    std::map<std::int32_t, std::vector<std::int32_t>> units;
    std::map<std::int32_t, std::vector<std::int32_t>> parameters;
    std::set<std::int32_t> outer;  // units of parameters outside Units
  };
  ModelParameters declared(Mesh& mesh, CallGroup pipeline, Allocate allocate, const ModelOptions& options);
  void add_held(DataParallel* data, const StageUnits& units);
  ModelParameters declared_elsewhere(DataParallel& dense, DataParallel* experts, const DataParameter& like);
  void declare_stages(ParameterList& list);
  void open_shared();
  void require_reports(std::int32_t number, const DataParallel& data, std::int32_t parameter,
                       std::int64_t expected) const;
  void enter(const std::string& unit, bool dense, bool experts);
  void require_all_ready(std::int32_t stage) const;
  void require_shared_ready() const;
  const T* gradient_of_output(std::int32_t stage, Underway& u, ConstBuffer dout) const;

  PipelineSchedule schedule_;
  std::map<std::int32_t, ModulePtr<T>> stages_;  // by number
  PipelineEnds<T> ends_;
  std::string why_;
  bool by_unit_ = false;  // units are gathered one after the other
  StageUnits dense_units_, expert_units_;
  std::string unit_;  // of parameters that stages share
  bool has_shared_ = false;
  std::int32_t shared_unit_ = -1;      // its number; -1: stages share nothing here
  std::set<std::string> outer_units_;  // of parameters outside Units
  ModelParameters parameters_;
  std::vector<HeldStages> held_;
  std::unique_ptr<StageCopies<T>> copies_;
  SampleSums<T>* sums_ = nullptr;
  ArrayPool<T> pool_;
  std::map<Key, Underway> underway_;
  std::map<std::int32_t, std::int64_t> ready_;   // calls of Pass::ready in this step, by parameter
  std::map<std::int32_t, std::int64_t> passed_;  // microbatches whose gradients were added up, by stage
  bool evaluates_ = false;
  double loss_scale_ = 1;
  TokenLoss loss_;
  std::unique_ptr<PipelineRunner> training_, evaluation_;
};

extern template class PipelinedModel<float>;
extern template class PipelinedModel<double>;

}  // namespace sinew::parallel
