#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/data_parallel/data_parallel.hpp>
#include <sinew/parallel/modules/module.hpp>

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
};

/// Data parallelism of dense parameters, and of experts if modules have them.
struct ModelParameters {
  std::unique_ptr<DataParallel> dense{}, experts{};
  bool dense_outside = false, experts_outside = false;  ///< there are parameters outside Units
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
/// Errors:   the constructor throws as DataParallel, and InvalidArgument if two parameters have one name or if experts
///           have no mesh. forward() and backward() throw what the modules throw. backward() throws InvalidArgument
///           if no forward pass has ended before it, or if that was given up by abandon_step().
template <class T>
class SINEW_API Model {
 public:
  Model(Mesh& mesh, ModulePtr<T> module, Allocate allocate, const ModelOptions& options);
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  /// Returns the loss of the modules that have one, such as PredictionModule.
  TokenLoss forward(const MicroBatch& batch, const T* x, T* out);
  /// loss_scale: Pass::loss_scale. dout is null if the module makes no elements, dx if nobody needs it.
  void backward(const T* dout, T* dx, double loss_scale = 1);
  /// A forward pass for which no backward pass follows, within data().forward_only().
  TokenLoss evaluate(const MicroBatch& batch, const T* x, T* out);

  DataParallel& data() noexcept { return *parameters_.dense; }
  bool has_experts() const noexcept { return parameters_.experts != nullptr; }
  /// Data parallelism of experts. May be called only if there are experts.
  DataParallel& experts() noexcept { return *parameters_.experts; }
  Module<T>& module() noexcept { return *module_; }
  /// Bytes of activations and of room for passes.
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
  std::unique_ptr<Underway> underway_;
};

extern template class Model<float>;
extern template class Model<double>;

/// Declares the parameters of modules, and makes data parallelism of them. one_unit: all of them belong to
/// ModelOptions::unit.
template <class T>
SINEW_API ModelParameters parameters_of(Mesh& mesh, std::vector<Module<T>*> modules, Allocate allocate,
                                        const ModelOptions& options, bool one_unit);

}  // namespace sinew::parallel
