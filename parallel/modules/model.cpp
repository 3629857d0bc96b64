#include <utility>

#include <sinew/core/error.hpp>
#include <sinew/parallel/modules/model.hpp>

namespace sinew::parallel {

template <class T>
std::unique_ptr<DataParallel> data_parallel_of(Mesh& mesh, std::vector<Module<T>*> modules, Allocate allocate,
                                               const ModelOptions& options, bool one_unit) {
  ParameterList list(
      {.dtype = options.parameter, .unit = options.unit, .gradient = options.gradient, .spread = options.spread},
      one_unit);
  for (Module<T>* module : modules) module->declare(list);
  return std::make_unique<DataParallel>(mesh, list.parameters(), list.initial(options.seed), options.row,
                                        std::move(allocate), options.data);
}

template <class T>
Model<T>::Model(Mesh& mesh, ModulePtr<T> module, Allocate allocate, const ModelOptions& options)
    : module_(std::move(module)), data_(data_parallel_of<T>(mesh, {module_.get()}, std::move(allocate), options)) {}

template <class T>
TokenLoss Model<T>::forward(const MicroBatch& batch, const T* x, T* out) {
  underway_ = std::make_unique<Underway>(Pass<T>(*data_, pool_, true), x, Kept<T>());
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
  Pass<T> pass(*data_, pool_, true);
  pass.batch = batch;
  Kept<T> unused;
  module_->forward(pass, x, unused, out);
  data_->finish_forward();
  return pass.loss;
}

template class Model<float>;
template class Model<double>;
template std::unique_ptr<DataParallel> data_parallel_of(Mesh&, std::vector<Module<float>*>, Allocate,
                                                        const ModelOptions&, bool);
template std::unique_ptr<DataParallel> data_parallel_of(Mesh&, std::vector<Module<double>*>, Allocate,
                                                        const ModelOptions&, bool);

}  // namespace sinew::parallel
