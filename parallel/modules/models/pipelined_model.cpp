#include <algorithm>
#include <cstddef>
#include <cstring>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/common/all_or_none.hpp>
#include <sinew/parallel/common/group_place.hpp>
#include <sinew/parallel/mesh/agreement.hpp>
#include <sinew/parallel/modules/models/pipelined_model.hpp>
#include <sinew/parallel/pipeline/passes/passes.hpp>

namespace sinew::parallel {
namespace {

constexpr std::int32_t kStagesUnit = 0;  // the only one
constexpr const char* kPipelinedModel = "pipelined model";

/// The numbers of a rank's stages.
std::vector<std::int32_t> stages_on(const PipelineSchedule& schedule, int rank) {
  std::vector<std::int32_t> stages;
  for (std::int32_t s = 0; s < schedule.stages(); ++s) {
    if (schedule.rank_of[static_cast<std::size_t>(s)] == rank) stages.push_back(s);
  }
  return stages;
}

[[noreturn]] void refuse_model(const std::string& why) {
  throw Error(Code::InvalidArgument, fmt::format("{}: {}", kPipelinedModel, why));
}

/// A rank's modules by their stages. All ranks of the pipeline learn of a fault on any of them.
template <class T>
std::map<std::int32_t, ModulePtr<T>> by_stage(CallGroup pipeline, const PipelineSchedule& schedule,
                                              std::vector<ModulePtr<T>> modules, const PipelineEnds<T>& ends,
                                              const ModelOptions& options) {
  const GroupPlace place(*pipeline);
  const std::vector<std::int32_t> own = stages_on(schedule, place.rank);
  const auto check = [&] {
    if (own.size() != modules.size())
      refuse_model(
          fmt::format("{} modules on rank {} of the pipeline, expected {}, one for each stage that '{}' has "
                      "there",
                      modules.size(), place.rank, own.size(), schedule.name));
    if (place.ranks > 1 && options.spread.empty())
      refuse_model(
          "ModelOptions::spread is empty, expected the axis of the pipeline, such as \"pp\", because its ranks have "
          "different parameters");
    if (own.empty()) return;
    if (own.front() == 0 && modules.front()->in_elements() > 0 && !ends.input)
      refuse_model("the first stage takes elements, expected PipelineEnds::input");
    if (own.back() + 1 == schedule.stages() && modules.back()->out_elements() > 0 && !ends.loss)
      refuse_model("the last stage makes elements, expected PipelineEnds::loss");
  };
  if (place.ranks > 1) {
    on_all_or_none(pipeline, kPipelinedModel, check);
  } else {
    check();
  }
  std::map<std::int32_t, ModulePtr<T>> stages;
  for (std::size_t i = 0; i < own.size(); ++i) stages[own[i]] = std::move(modules[i]);
  return stages;
}

/// Two stages would be saved as one parameter, and begin with the same values.
void require_different_names(CallGroup pipeline, const std::vector<DataParallel*>& held) {
  if (GroupPlace(*pipeline).ranks < 2) return;
  std::vector<std::int64_t> mine;
  for (DataParallel* data : held) {
    for (const DataParameter& p : data->parameters()) mine.push_back(static_cast<std::int64_t>(hash_of(p.path)));
  }
  std::vector<std::int64_t> most{std::ssize(mine)};
  pipeline->all_reduce(most, ReduceOp::Max, pipeline.options(kPipelinedModel)).get();
  const std::vector<std::int64_t> own = mine;
  mine.resize(static_cast<std::size_t>(most[0]));
  std::vector<std::int64_t> all(mine.size() * static_cast<std::size_t>(pipeline->size()));
  pipeline->all_gather(mine, all, pipeline.options(kPipelinedModel)).get();
  on_all_or_none(pipeline, kPipelinedModel, [&] {
    auto number = own.begin();
    for (DataParallel* data : held) {
      for (const DataParameter& p : data->parameters()) {
        if (std::ranges::count(all, *number++) > 1)
          refuse_model(fmt::format("two stages have a parameter '{}', expected names that differ", p.path));
      }
    }
  });
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
      stages_(by_stage<T>(pipeline, schedule_, std::move(stages), ends, options)),
      ends_(std::move(ends)),
      parameters_(parameters_of<T>(mesh, modules_of(stages_), std::move(allocate), options, true)) {
  for (DataParallel* data : {parameters_.dense.get(), parameters_.experts.get()}) {
    if (data != nullptr && !data->parameters().empty()) held_.push_back(data);
  }
  require_different_names(pipeline, held_);
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
  ready_.clear();
  training_->run();
  require_all_ready();
  for (DataParallel* data : held_) {
    for (std::int32_t p = 0; p < std::ssize(data->parameters()); ++p) data->gradient_ready(p);
    data->after_backward(kStagesUnit);
  }
  return loss_;
}

/// Every module reports each of its parameters in every pass.
template <class T>
void PipelinedModel<T>::require_all_ready() const {
  for (DataParallel* data : held_) {
    for (std::int32_t p = 0; p < std::ssize(data->parameters()); ++p) {
      const auto found = ready_.find(data == parameters_.experts.get() ? -1 - p : p);
      const std::int64_t reports = found == ready_.end() ? 0 : found->second;
      if (reports != schedule_.micro_batches)
        refuse_model(
            fmt::format("the gradient of '{}' was reported {} times in {} microbatches, expected once in each "
                        "(Pass::ready)",
                        data->parameters()[static_cast<std::size_t>(p)].path, reports, schedule_.micro_batches));
    }
  }
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
          .emplace(
              Key{stage, micro_batch},
              Underway{Pass<T>(*parameters_.dense, parameters_.experts.get(), pool_, false, &ready_), {}, {}, {}, {}})
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
