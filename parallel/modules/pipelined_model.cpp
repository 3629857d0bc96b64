#include <algorithm>
#include <cstddef>
#include <cstring>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/common/group_place.hpp>
#include <sinew/parallel/modules/pipelined_model.hpp>
#include <sinew/parallel/pipeline/passes/passes.hpp>

namespace sinew::parallel {
namespace {

constexpr std::int32_t kStagesUnit = 0;  // the only one

template <class T>
std::map<std::int32_t, ModulePtr<T>> by_stage(const PipelineSchedule& schedule, int rank,
                                              std::vector<ModulePtr<T>> modules) {
  std::map<std::int32_t, ModulePtr<T>> stages;
  std::size_t next = 0;
  std::size_t own = 0;
  for (std::int32_t s = 0; s < schedule.stages(); ++s) {
    if (schedule.rank_of[static_cast<std::size_t>(s)] != rank) continue;
    ++own;
    if (next < modules.size()) stages[s] = std::move(modules[next++]);
  }
  if (own == modules.size()) return stages;
  throw Error(
      Code::InvalidArgument,
      fmt::format("pipelined model: {} modules on rank {} of the pipeline, expected {}, one for each stage that "
                  "'{}' has there",
                  modules.size(), rank, own, schedule.name));
}

template <class T>
std::vector<Module<T>*> modules_of(const std::map<std::int32_t, ModulePtr<T>>& stages) {
  std::vector<Module<T>*> modules;
  for (const auto& [number, module] : stages) modules.push_back(module.get());
  return modules;
}

}  // namespace

template <class T>
PipelinedModel<T>::PipelinedModel(Mesh& mesh, CallGroup pipeline, PipelineSchedule schedule,
                                  std::vector<ModulePtr<T>> stages, PipelineEnds<T> ends, Allocate allocate,
                                  const ModelOptions& options)
    : schedule_(std::move(schedule)),
      stages_(by_stage<T>(schedule_, GroupPlace(*pipeline).rank, std::move(stages))),
      ends_(std::move(ends)),
      parameters_(parameters_of<T>(mesh, modules_of(stages_), std::move(allocate), options, true)) {
  if (stages_.contains(0) && module(0).in_elements() > 0 && !ends_.input)
    throw Error(Code::InvalidArgument, "pipelined model: the first stage takes elements, expected PipelineEnds::input");
  const std::int32_t last = schedule_.stages() - 1;
  if (stages_.contains(last) && module(last).out_elements() > 0 && !ends_.loss)
    throw Error(Code::InvalidArgument, "pipelined model: the last stage makes elements, expected PipelineEnds::loss");
  for (DataParallel* data : {parameters_.dense.get(), parameters_.experts.get()}) {
    if (data != nullptr && !data->parameters().empty()) held_.push_back(data);
  }
  std::vector<StepProtocol*> steps;
  for (DataParallel* data : held_) steps.push_back(&data->protocol());
  auto& engine = static_cast<StageEngine&>(*this);
  training_ = std::make_unique<PipelineRunner>(pipeline, schedule_, engine, steps);
  evaluation_ = std::make_unique<PipelineRunner>(pipeline, forward_only(schedule_), engine, steps);
}

template <class T>
TokenLoss PipelinedModel<T>::step(double loss_scale) {
  loss_ = {};
  loss_scale_ = loss_scale;
  evaluates_ = false;
  underway_.clear();
  for (DataParallel* data : held_) {
    data->before_forward(kStagesUnit);
    data->after_forward(kStagesUnit);
    data->before_backward(kStagesUnit);
  }
  training_->run();
  for (DataParallel* data : held_) {
    for (std::int32_t p = 0; p < std::ssize(data->parameters()); ++p) data->gradient_ready(p);
    data->after_backward(kStagesUnit);
  }
  return loss_;
}

template <class T>
TokenLoss PipelinedModel<T>::evaluate() {
  loss_ = {};
  evaluates_ = true;
  underway_.clear();
  for (DataParallel* data : held_) data->before_forward(kStagesUnit);
  evaluation_->run();
  for (DataParallel* data : held_) {
    data->after_forward(kStagesUnit);
    data->finish_forward();
  }
  return loss_;
}

template <class T>
std::size_t PipelinedModel<T>::output_bytes(std::int32_t stage) const {
  return is_last(stage) ? 0 : static_cast<std::size_t>(module(stage).out_elements()) * sizeof(T);
}

template <class T>
std::size_t PipelinedModel<T>::forward(std::int32_t stage, std::int32_t micro_batch, ConstBuffer in, Buffer out) {
  Underway& u =
      underway_
          .emplace(Key{stage, micro_batch},
                   Underway{Pass<T>(*parameters_.dense, parameters_.experts.get(), pool_, false), {}, {}, {}, {}})
          .first->second;
  if (ends_.batch) u.pass.batch = ends_.batch(micro_batch);
  u.pass.loss_scale = loss_scale_;
  u.x = pool_.take(module(stage).in_elements());
  if (stage == 0) {
    if (u.x.size() > 0) ends_.input(micro_batch, u.x.data());
  } else {
    if (in.bytes != u.x.size() * sizeof(T))
      throw Error(
          Code::InvalidArgument,
          fmt::format("pipelined model: stage {} takes {} bytes, expected {}, as the stage before it makes them", stage,
                      u.x.size() * sizeof(T), in.bytes));
    std::memcpy(u.x.data(), in.data, in.bytes);
  }
  if (!is_last(stage)) {
    module(stage).forward(u.pass, u.x.data(), u.kept, reinterpret_cast<T*>(out.data));
  } else {
    u.out = pool_.take(module(stage).out_elements());
    module(stage).forward(u.pass, u.x.data(), u.kept, u.out.data());
    if (u.out.size() > 0) ends_.loss(micro_batch, u.out.data());
  }
  loss_.sum += u.pass.loss.sum;
  loss_.tokens += u.pass.loss.tokens;
  if (evaluates_) underway_.erase(Key{stage, micro_batch});
  return out.bytes;
}

template <class T>
const T* PipelinedModel<T>::gradient_of_output(std::int32_t stage, Underway& u, ConstBuffer dout) const {
  return is_last(stage) ? u.out.data() : reinterpret_cast<const T*>(dout.data);
}

template <class T>
std::size_t PipelinedModel<T>::backward(std::int32_t stage, std::int32_t micro_batch, ConstBuffer dout, Buffer din) {
  const auto found = underway_.find(Key{stage, micro_batch});
  Underway& u = found->second;
  T* const dx = stage == 0 ? nullptr : reinterpret_cast<T*>(din.data);
  module(stage).backward(u.pass, u.x.data(), u.kept, gradient_of_output(stage, u, dout), dx);
  underway_.erase(found);
  return din.bytes;
}

template <class T>
std::size_t PipelinedModel<T>::input_gradient(std::int32_t stage, std::int32_t micro_batch, ConstBuffer dout,
                                              Buffer din) {
  Underway& u = underway_.at(Key{stage, micro_batch});
  if (!is_last(stage)) {
    u.dout = pool_.take(module(stage).out_elements());
    std::memcpy(u.dout.data(), dout.data, dout.bytes);
  }
  T* const dx = stage == 0 ? nullptr : reinterpret_cast<T*>(din.data);
  module(stage).input_gradient(u.pass, u.x.data(), u.kept, gradient_of_output(stage, u, dout), dx);
  return din.bytes;
}

template <class T>
void PipelinedModel<T>::weight_gradient(std::int32_t stage, std::int32_t micro_batch) {
  const auto found = underway_.find(Key{stage, micro_batch});
  Underway& u = found->second;
  module(stage).weight_gradient(u.pass, u.x.data(), u.kept, is_last(stage) ? u.out.data() : u.dout.data());
  underway_.erase(found);
}

template class PipelinedModel<float>;
template class PipelinedModel<double>;

}  // namespace sinew::parallel
