#include <utility>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/modules/model.hpp>

namespace sinew::parallel {

template <class T>
ModelParameters parameters_of(Mesh& mesh, std::vector<Module<T>*> modules, Allocate allocate,
                              const ModelOptions& options, bool one_unit) {
  ParameterList list(
      {.dtype = options.parameter, .unit = options.unit, .gradient = options.gradient, .spread = options.spread},
      one_unit);
  for (Module<T>* module : modules) module->declare(list);
  const ParameterList::Family &dense = list.dense(), &experts = list.experts();
  ModelParameters all;
  all.dense = std::make_unique<DataParallel>(mesh, dense.parameters, dense.initial(options.seed), options.row, allocate,
                                             options.data);
  if (experts.parameters.empty()) return all;
  if (options.expert_mesh == nullptr)
    throw Error(Code::InvalidArgument, fmt::format("model: '{}' is of experts, expected ModelOptions::expert_mesh and "
                                                   "expert_row",
                                                   experts.parameters.front().path));
  all.experts = std::make_unique<DataParallel>(*options.expert_mesh, experts.parameters, experts.initial(options.seed),
                                               options.expert_row, std::move(allocate), options.data);
  return all;
}

template <class T>
Model<T>::Model(Mesh& mesh, ModulePtr<T> module, Allocate allocate, const ModelOptions& options)
    : module_(std::move(module)),
      parameters_(parameters_of<T>(mesh, {module_.get()}, std::move(allocate), options, false)) {}

template <class T>
TokenLoss Model<T>::forward(const MicroBatch& batch, const T* x, T* out) {
  underway_ =
      std::make_unique<Underway>(Pass<T>(*parameters_.dense, parameters_.experts.get(), pool_, true), x, Kept<T>());
  underway_->pass.batch = batch;
  module_->forward(underway_->pass, x, underway_->kept, out);
  return underway_->pass.loss;
}

template <class T>
void Model<T>::backward(const T* dout, T* dx, double loss_scale) {
  if (!underway_)
    throw Error(Code::InvalidArgument, "Model::backward() was called without a forward pass, expected forward() first");
  const std::unique_ptr<Underway> pass = std::move(underway_);
  pass->pass.loss_scale = loss_scale;
  module_->backward(pass->pass, pass->x, pass->kept, dout, dx);
}

template <class T>
TokenLoss Model<T>::evaluate(const MicroBatch& batch, const T* x, T* out) {
  Pass<T> pass(*parameters_.dense, parameters_.experts.get(), pool_, true);
  pass.batch = batch;
  Kept<T> unused;
  module_->forward(pass, x, unused, out);
  parameters_.dense->finish_forward();
  if (has_experts()) experts().finish_forward();
  return pass.loss;
}

template class Model<float>;
template class Model<double>;
template ModelParameters parameters_of(Mesh&, std::vector<Module<float>*>, Allocate, const ModelOptions&, bool);
template ModelParameters parameters_of(Mesh&, std::vector<Module<double>*>, Allocate, const ModelOptions&, bool);

}  // namespace sinew::parallel
