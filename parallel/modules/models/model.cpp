#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/modules/models/model.hpp>

namespace sinew::parallel {

namespace {

bool has_unit(const ParameterList::Family& family, const std::string& unit) {
  return std::ranges::find(family.parameters, unit, &DataParameter::unit) != family.parameters.end();
}

/// Options with which `unit` is opened before all others, if it has parameters.
DataParallelOptions with_outer_unit(DataParallelOptions options, bool is_there, const std::string& unit) {
  if (is_there) options.step.outer_unit = unit;
  return options;
}

}  // namespace

template <class T>
ModelParameters parameters_of(Mesh& mesh, std::vector<Module<T>*> modules, Allocate allocate,
                              const ModelOptions& options, bool one_unit) {
  const DType gradient = options.gradient.value_or(options.parameter == DType::F64 ? DType::F64 : DType::F32);
  ParameterList list({.dtype = options.parameter, .unit = options.unit, .gradient = gradient, .spread = options.spread},
                     one_unit);
  for (Module<T>* module : modules) module->declare(list);
  const ParameterList::Family &dense = list.dense(), &experts = list.experts();
  ModelParameters all;
  all.dense_outside = !one_unit && has_unit(dense, options.unit);
  all.experts_outside = !one_unit && has_unit(experts, options.unit);
  all.dense = std::make_unique<DataParallel>(mesh, dense.parameters, dense.initial(options.seed), options.row, allocate,
                                             with_outer_unit(options.data, all.dense_outside, options.unit));
  if (experts.parameters.empty()) return all;
  if (options.expert_mesh == nullptr)
    throw Error(Code::InvalidArgument, fmt::format("model: '{}' is of experts, expected ModelOptions::expert_mesh and "
                                                   "expert_row",
                                                   experts.parameters.front().path));
  all.experts = std::make_unique<DataParallel>(*options.expert_mesh, experts.parameters, experts.initial(options.seed),
                                               options.expert_row, std::move(allocate),
                                               with_outer_unit(options.data, all.experts_outside, options.unit));
  return all;
}

template <class T>
Model<T>::Model(Mesh& mesh, ModulePtr<T> module, Allocate allocate, const ModelOptions& options)
    : module_(std::move(module)),
      parameters_(parameters_of<T>(mesh, {module_.get()}, std::move(allocate), options, false)),
      unit_(options.unit) {}

template <class T>
Pass<T> Model<T>::pass_of(const MicroBatch& batch) {
  Pass<T> pass(*parameters_.dense, parameters_.experts.get(), pool_, true);
  pass.batch = batch;
  return pass;
}

template <class T>
TokenLoss Model<T>::forward(const MicroBatch& batch, const T* x, T* out) {
  underway_.reset();
  auto begun = std::make_unique<Underway>(Underway{pass_of(batch), x});
  Pass<T>& pass = begun->pass;
  pass.enter_forward(unit_, parameters_.dense_outside, parameters_.experts_outside);
  module_->forward(pass, x, begun->kept, out);
  pass.leave_forward(unit_, parameters_.dense_outside, parameters_.experts_outside);
  begun->number = data().protocol().passes();
  underway_ = std::move(begun);
  return pass.loss;
}

template <class T>
void Model<T>::backward(const T* dout, T* dx, double loss_scale) {
  const std::unique_ptr<Underway> begun = std::move(underway_);
  if (!begun)
    throw Error(Code::InvalidArgument, "Model::backward() was called without a forward pass, expected forward() first");
  if (begun->number != data().protocol().passes())
    throw Error(Code::InvalidArgument,
                "Model::backward() was called for a forward pass that was given up, expected forward() first");
  Pass<T>& pass = begun->pass;
  pass.loss_scale = loss_scale;
  pass.enter_backward(unit_, parameters_.dense_outside, parameters_.experts_outside);
  module_->backward(pass, begun->x, begun->kept, dout, dx);
  pass.leave_backward(unit_, parameters_.dense_outside, parameters_.experts_outside);
}

template <class T>
TokenLoss Model<T>::evaluate(const MicroBatch& batch, const T* x, T* out) {
  Pass<T> pass = pass_of(batch);
  Kept<T> unused;
  pass.enter_forward(unit_, parameters_.dense_outside, parameters_.experts_outside);
  module_->forward(pass, x, unused, out);
  pass.leave_forward(unit_, parameters_.dense_outside, parameters_.experts_outside);
  data().finish_forward();
  if (has_experts()) experts().finish_forward();
  return pass.loss;
}

template class Model<float>;
template class Model<double>;
template ModelParameters parameters_of(Mesh&, std::vector<Module<float>*>, Allocate, const ModelOptions&, bool);
template ModelParameters parameters_of(Mesh&, std::vector<Module<double>*>, Allocate, const ModelOptions&, bool);

}  // namespace sinew::parallel
