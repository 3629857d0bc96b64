#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/data_parallel/join.hpp>
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

/// Throws if there is a device on which the module, or a part of it, does not compute.
template <class T>
void require_runs_on(const ComputeDevice& device, Module<T>& module) {
  if (!device.exists()) return;
  if (!module.runs_on_devices()) {
    throw Error(Code::InvalidArgument,
                fmt::format("model: module {} computes on the host only; expected modules that run on devices, or no "
                            "DataParallelOptions::device",
                            module.name().empty() ? "without a name" : fmt::format("'{}'", module.name())));
  }
  module.for_each_part([&](ModulePtr<T>& part) { require_runs_on<T>(device, *part); });
}

template <class T>
ModulePtr<T> with_policies(ModulePtr<T> module, const ModelOptions& options) {
  ModulePolicies<T> policies(options);
  module = policies.apply(std::move(module));
  policies.require_all_found();
  return module;
}

}  // namespace

template <class T>
ModulePolicies<T>::ModulePolicies(const ModelOptions& options)
    : recomputation_(options.recomputation),
      queue_(options.offload.store == nullptr ? nullptr : std::make_shared<ActivationQueue<T>>(options.offload)),
      names_{options.recomputation.names(), options.offload.names()} {
  if (queue_ == nullptr && !options.offload.modules.empty())
    throw Error(Code::InvalidArgument,
                "model: ModelOptions::offload names modules, but no store; expected a store such as FileStore");
}

template <class T>
ModulePtr<T> ModulePolicies<T>::apply(ModulePtr<T> module) {
  return with_activation_offload(with_recomputation(std::move(module), recomputation_, names_[0]), queue_, names_[1]);
}

ParameterList empty_list(const ModelOptions& options) {
  const DType gradient = options.gradient.value_or(options.parameter == DType::F64 ? DType::F64 : DType::F32);
  return ParameterList(
      {.dtype = options.parameter, .unit = options.unit, .gradient = gradient, .spread = options.spread});
}

ModelParameters parameters_of(Mesh& mesh, const ParameterList& list, Allocate allocate, const ModelOptions& options,
                              const DataParallelOptions& dense_options, const DataParallelOptions& of_experts) {
  const ParameterList::Family &dense = list.dense(), &experts = list.experts();
  ModelParameters all;
  all.copies = list.copies();
  all.shared = list.shared();
  all.owned_dense = std::make_unique<DataParallel>(mesh, dense.parameters, dense.initial(options.seed), options.row,
                                                   allocate, dense_options);
  all.dense = all.owned_dense.get();
  if (experts.parameters.empty()) return all;
  if (options.expert_mesh == nullptr)
    throw Error(Code::InvalidArgument, fmt::format("model: '{}' is of experts, expected ModelOptions::expert_mesh and "
                                                   "expert_row",
                                                   experts.parameters.front().path));
  all.owned_experts =
      std::make_unique<DataParallel>(*options.expert_mesh, experts.parameters, experts.initial(options.seed),
                                     options.expert_row, std::move(allocate), of_experts);
  all.experts = all.owned_experts.get();
  return all;
}

ModelParameters held_parameters(DataParallel& dense, DataParallel* experts, const ParameterList& list) {
  const auto require = [](const ParameterList::Family& family, const DataParallel* data) {
    const std::size_t held = data != nullptr ? data->parameters().size() : 0;
    for (std::size_t i = 0; i < std::max(held, family.parameters.size()); ++i) {
      const std::string has = i < held ? data->parameters()[i].path : "no parameter";
      const std::string needs = i < family.parameters.size() ? family.parameters[i].path : "no parameter";
      if (has != needs)
        throw Error(Code::InvalidArgument,
                    fmt::format("model: data parallelism has '{}' as parameter {}, expected '{}', as the modules have "
                                "it",
                                has, i, needs));
    }
  };
  require(list.dense(), &dense);
  require(list.experts(), experts);
  ModelParameters all;
  all.dense = &dense;
  all.experts = experts;
  all.copies = list.copies();
  all.shared = list.shared();
  return all;
}

namespace {

/// Declares the parameters of a module. Those outside units are a unit that is opened before all others.
template <class T>
ModelParameters declared(Mesh& mesh, Module<T>& module, Allocate allocate, const ModelOptions& options) {
  ParameterList list = empty_list(options);
  module.declare(list);
  const bool dense = has_unit(list.dense(), options.unit), experts = has_unit(list.experts(), options.unit);
  ModelParameters all =
      parameters_of(mesh, list, std::move(allocate), options, with_outer_unit(options.data, dense, options.unit),
                    with_outer_unit(options.data, experts, options.unit));
  all.dense_outside = dense;
  all.experts_outside = experts;
  return all;
}

/// The same, held by data parallelism that others have made.
template <class T>
ModelParameters declared_elsewhere(DataParallel& dense, DataParallel* experts, Module<T>& module,
                                   const DataParameter& like) {
  ParameterList list(like);
  module.declare(list);
  ModelParameters all = held_parameters(dense, experts, list);
  all.dense_outside = has_unit(list.dense(), like.unit);
  all.experts_outside = has_unit(list.experts(), like.unit);
  return all;
}

}  // namespace

template <class T>
Model<T>::Model(Mesh& mesh, ModulePtr<T> module, Allocate allocate, const ModelOptions& options)
    : module_(with_policies(std::move(module), options)),
      parameters_(declared<T>(mesh, *module_, std::move(allocate), options)),
      pool_(options.data.device),
      unit_(options.unit) {
  require_runs_on<T>(options.data.device, *module_);
}

template <class T>
Model<T>::Model(DataParallel& dense, DataParallel* experts, ModulePtr<T> module, const DataParameter& like)
    : module_(std::move(module)),
      parameters_(declared_elsewhere<T>(dense, experts, *module_, like)),
      pool_(dense.device()),
      unit_(like.unit) {
  require_runs_on<T>(dense.device(), *module_);
}

template <class T>
Pass<T> Model<T>::pass_of(const MicroBatch& batch) {
  Pass<T> pass(*parameters_.dense, parameters_.experts, pool_, true);
  pass.batch = batch;
  pass.by_sample = sums_;
  pass.waited = &waited_;
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
  pass.keeps = false;
  Kept<T> unused;
  pass.enter_forward(unit_, parameters_.dense_outside, parameters_.experts_outside);
  module_->forward(pass, x, unused, out);
  pass.leave_forward(unit_, parameters_.dense_outside, parameters_.experts_outside);
  data().finish_forward();
  if (has_experts()) experts().finish_forward();
  return pass.loss;
}

template <class T>
void Model<T>::shadow_pass() {
  if (has_experts())
    throw Error(Code::InvalidArgument,
                "Model::shadow_pass() was called, but experts exchange tokens with this rank in each pass; expected "
                "forward() and backward() of a batch whose targets are all ignored");
  underway_.reset();
  parallel::shadow_pass(data());
  if (data().protocol().kind() == PassKind::ForwardOnly) data().finish_forward();
}

template class ModulePolicies<float>;
template class ModulePolicies<double>;
template class Model<float>;
template class Model<double>;

}  // namespace sinew::parallel
