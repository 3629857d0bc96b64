#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/data_parallel/data_parallel.hpp>
#include <sinew/parallel/modules/activation_offload.hpp>
#include <sinew/parallel/modules/module.hpp>
#include <sinew/parallel/modules/recomputation.hpp>

namespace sinew::parallel {

/// The options of a model's parameters.
struct ModelOptions {
  DataRow row{};                 ///< data_row("zero3", {"dp"})
  DType parameter = DType::F32;  ///< f64, f32, bf16 or f16
  /// The dtype in which gradients are added up and summed. {}: f64 for parameters of f64, otherwise f32.
  std::optional<DType> gradient{};
  std::uint64_t seed = 1;  ///< of initial values
  /// The unit of parameters of modules outside a Unit. Model opens it before all other units, and closes it after them.
  std::string unit = "model";
  /// The axes along which other ranks have other modules: "pp" if the model is a pipeline's. Modules add their own.
  std::string spread{};
  /// Sums by default, so that the optimizer gets the mean over all samples, however many a rank has.
  DataParallelOptions data{.gradients = ReduceOp::Sum};
  /// If modules have experts: the mesh on which experts are spread ("ep") and cut ("etp"). expert_row is the row along
  /// the axis of their copies, such as data_row("zero1", {"edp"}).
  Mesh* expert_mesh = nullptr;
  DataRow expert_row{};
  /// The activations that the backward pass computes again. The code of the modules stays as it is.
  Recomputation recomputation{};
  /// The activations that are in a store between their forward and their backward pass.
  ActivationOffload offload{};
};

/// Changes the modules of a model by the policies of its options.
template <class T>
class SINEW_API ModulePolicies {
 public:
  /// Errors: InvalidArgument for an offload of named modules to no store.
  explicit ModulePolicies(const ModelOptions& options);

  ModulePtr<T> apply(ModulePtr<T> module);
  /// The names of all policies.
  std::array<ModuleNames, 2>& names() noexcept { return names_; }
  /// Errors: InvalidArgument if a name of a policy stands for no module.
  void require_all_found() const {
    for (const ModuleNames& names : names_) names.require_all_found();
  }

 private:
  Recomputation recomputation_;
  std::shared_ptr<ActivationQueue<T>> queue_;  // null: nothing is offloaded
  std::array<ModuleNames, 2> names_;
};

/// Data parallelism of dense parameters, and of experts if modules have them. Others, such as a Job, may own it.
struct ModelParameters {
  DataParallel* dense = nullptr;
  DataParallel* experts = nullptr;
  bool dense_outside = false, experts_outside = false;  ///< there are parameters outside Units
  std::unique_ptr<DataParallel> owned_dense{}, owned_experts{};
  std::vector<DataParameter> copies{};           ///< of parameters of other stages (ParameterList::add_copy)
  std::map<std::string, std::int32_t> shared{};  ///< ParameterList::shared()
};

/// Modules with their parameters, under a row of data parallelism. A step of training:
///
///     model.forward(batch, x, out);
///     model.backward(dout, dx);
///     auto owned = model.data().finish_backward();
///     optimizer.update(owned, scale);
///     model.data().updated();
///
/// With several microbatches, the first three are called for each of them, for all but the last within
/// data().no_sync(). If the modules have experts, the last three are called for experts() too, with an optimizer of its
/// own.
/// Shape:    x, out, dx and dout as the module has them. x stays as it is until backward() has ended.
/// Thread:   the World's.
/// Lifetime: ends before mesh and World, and before what the modules were made with.
/// Errors:   the constructor throws as DataParallel. It throws InvalidArgument if two parameters have one name or if
///           experts have no mesh. The same holds if a name of a policy stands for no module. forward() and backward()
///           throw what the modules throw. backward() throws InvalidArgument if no forward pass has ended before it, or
///           if that was given up by abandon_step().
template <class T>
class SINEW_API Model {
 public:
  Model(Mesh& mesh, ModulePtr<T> module, Allocate allocate, const ModelOptions& options);
  /// Modules whose parameters others have made, from the lists of equal modules: a Job from EngineFacts::parameters.
  /// experts: null if there are none. like: the record from which these lists were made.
  /// Lifetime: ends before `dense` and `experts`.
  /// Errors:   InvalidArgument if the modules have other parameters.
  Model(DataParallel& dense, DataParallel* experts, ModulePtr<T> module, const DataParameter& like);
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  /// Returns the loss of the modules that have one, such as PredictionModule.
  TokenLoss forward(const MicroBatch& batch, const T* x, T* out);
  /// loss_scale: Pass::loss_scale. dout is null if the module makes no elements, dx if nobody needs it.
  void backward(const T* dout, T* dx, double loss_scale = 1);
  /// Gradients of later passes are layout-invariant. null: they are added up in the fastest way again.
  void set_sample_sums(SampleSums<T>* sums) noexcept { sums_ = sums; }
  /// A forward pass for which no backward pass follows, within data().forward_only(). It ends with finish_forward() of
  /// data() and of experts().
  TokenLoss evaluate(const MicroBatch& batch, const T* x, T* out);
  /// In place of forward() and backward() where this rank has no batch and other data-parallel ranks have one (Join):
  /// the exchanges of these passes, with gradients to which nothing is added. Within data().forward_only() in place of
  /// evaluate(). All ranks that share the modules of a batch call it, such as those of tensor parallelism.
  /// Errors: InvalidArgument if the modules have experts, because their ranks exchange tokens in each pass.
  void shadow_pass();

  DataParallel& data() noexcept { return *parameters_.dense; }
  bool has_experts() const noexcept { return parameters_.experts != nullptr; }
  /// Data parallelism of experts. May be called only if there are experts.
  DataParallel& experts() noexcept { return *parameters_.experts; }
  /// Wall time in which passes waited for exchanges of data parallelism, since the last call.
  std::chrono::nanoseconds take_waited() noexcept { return std::exchange(waited_, {}); }
  Module<T>& module() noexcept { return *module_; }
  /// Bytes of activations and of room for passes. Memory that layers share is not included:
  /// SharedAttention::held_bytes() and the like.
  std::size_t held_bytes() const noexcept { return pool_.held_bytes(); }

 private:
  struct Underway {
    Pass<T> pass;
    const T* x;
    Kept<T> kept{};
    std::uint64_t number = 0;  // StepProtocol::passes()
  };
  Pass<T> pass_of(const MicroBatch& batch);

  ModulePtr<T> module_;
  ModelParameters parameters_;
  ArrayPool<T> pool_;
  std::string unit_;
  SampleSums<T>* sums_ = nullptr;
  std::chrono::nanoseconds waited_{};
  std::unique_ptr<Underway> underway_;
};

extern template class ModulePolicies<float>;
extern template class ModulePolicies<double>;
extern template class Model<float>;
extern template class Model<double>;

/// Declared parameters, held by data parallelism that others have made. experts: null if there are none.
/// Errors: InvalidArgument if these have other parameters.
SINEW_API ModelParameters held_parameters(DataParallel& dense, DataParallel* experts, const ParameterList& list);

/// An empty list of parameters for modules of a model with these options.
SINEW_API ParameterList empty_list(const ModelOptions& options);
/// Makes data parallelism of declared parameters. dense, of_experts: its options, in the place of ModelOptions::data.
SINEW_API ModelParameters parameters_of(Mesh& mesh, const ParameterList& list, Allocate allocate,
                                        const ModelOptions& options, const DataParallelOptions& dense,
                                        const DataParallelOptions& of_experts);

}  // namespace sinew::parallel
