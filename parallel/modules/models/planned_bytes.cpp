#include <cstdint>
#include <map>
#include <string>

#include <sinew/parallel/job/pipeline_schedule.hpp>
#include <sinew/parallel/modules/models/planned_bytes.hpp>
#include <sinew/parallel/pipeline/passes/passes.hpp>
#include <sinew/parallel/pipeline/pipeline_runner.hpp>

namespace sinew::parallel {
namespace {

/// The path without its last components.
std::string layer_of(const std::string& path, int components) {
  std::size_t end = path.size();
  for (int c = 0; c < components && end != std::string::npos && end > 0; ++c) end = path.rfind('.', end - 1);
  return path.substr(0, end);
}

/// Adds the arrays for parameters that modules see in another dtype. A layer has the values of all its parameters at a
/// time, or what is added to the gradient of one of them.
template <class T>
void raise_to_converted(ArrayCounts& most, const std::vector<DataParameter>& parameters, int components) {
  std::map<std::string, ArrayCounts> values;  // by layer
  for (const DataParameter& p : parameters) {
    const std::int64_t elements = p.box.elements();
    if (p.dtype != kDTypeOf<T>) values[layer_of(p.path, components)] += {elements};
    if (p.gradient_dtype() != kDTypeOf<T>) most.raise_to({elements});
  }
  for (const auto& [layer, arrays] : values) most.raise_to(arrays);
}

template <class T>
ArrayCounts converted_arrays(const ParameterList& list) {
  ArrayCounts most;
  raise_to_converted<T>(most, list.dense().parameters, 1);
  raise_to_converted<T>(most, list.experts().parameters, 2);  // as in "block0.experts.up.weight"
  return most;
}

/// The arrays of a module, asked for once. Passes with late gradients of weights need the last two.
struct ModuleArrays {
  template <class T>
  explicit ModuleArrays(const Module<T>& module)
      : kept(module.kept_arrays()), forward(module.forward_arrays(true)), backward(module.backward_arrays()) {}

  ArrayCounts kept, forward, backward, deferred{}, first_half{}, second_half{};
};

/// Passes of modules, in the order in which a rank runs them. own: arrays of a pass beside those of the module, which
/// stay until its end.
class PlannedPasses {
 public:
  void forward(const ModuleArrays& module, const ArrayCounts& own = {}) {
    here_ += own;
    most_.raise_to(here_ + module.forward);
    here_ += module.kept;
  }
  void backward(const ModuleArrays& module, const ArrayCounts& own = {}) {
    most_.raise_to(here_ - module.kept + module.backward);
    here_ -= module.kept + own;
  }
  /// dout: the gradient of the output, which stays until the second half ends.
  void input_gradient(const ModuleArrays& module, const ArrayCounts& dout) {
    here_ += dout;
    most_.raise_to(here_ - module.kept + module.first_half);
    here_ += module.deferred;
  }
  void weight_gradient(const ModuleArrays& module, const ArrayCounts& own) {
    here_ -= module.kept + module.deferred;
    most_.raise_to(here_ + module.second_half);
    here_ -= own;
  }
  void give_back(const ArrayCounts& arrays) { here_ -= arrays; }
  const ArrayCounts& most() const noexcept { return most_; }

 private:
  ArrayCounts here_, most_;
};

/// Follows the passes of PipelinedModel. stages: this rank's modules by their stages.
template <class T>
ArrayCounts most_in_pipeline(const std::map<std::int32_t, const Module<T>*>& stages, const PipelineSchedule& schedule,
                             int rank) {
  std::map<std::int32_t, ModuleArrays> arrays;
  for (const auto& [stage, module] : stages) {
    ModuleArrays& of = arrays.emplace(stage, ModuleArrays(*module)).first->second;
    if (!has_late_weights(schedule)) continue;
    of.deferred = module->deferred_arrays();
    of.first_half = module->first_half_arrays();
    of.second_half = module->second_half_arrays();
  }
  PlannedPasses passes;
  for (const Action& action : schedule.actions[static_cast<std::size_t>(rank)]) {
    if (!is_compute(action.kind)) continue;
    const Module<T>& module = *stages.at(action.stage);
    const ModuleArrays& of = arrays.at(action.stage);
    const bool is_last = action.stage + 1 == schedule.stages();
    const ArrayCounts input{module.in_elements()}, output{module.out_elements()};
    const ArrayCounts own = (module.needs_input() ? input : ArrayCounts()) + (is_last ? output : ArrayCounts());
    const ArrayCounts dout = is_last ? ArrayCounts() : output;
    switch (action.kind) {
      case ActionKind::Forward:
        passes.forward(of, is_last ? input + output : input);
        if (!module.needs_input()) passes.give_back(input);
        break;
      case ActionKind::Backward: passes.backward(of, own); break;
      case ActionKind::InputGradient: passes.input_gradient(of, dout); break;
      case ActionKind::WeightGradient: passes.weight_gradient(of, own + dout); break;
      default: break;
    }
  }
  return passes.most();
}

template <class T>
ArrayCounts most_of_passes(const std::vector<ModulePtr<T>>& modules) {
  std::vector<ModuleArrays> arrays;
  for (const ModulePtr<T>& module : modules) arrays.emplace_back(*module);
  PlannedPasses passes;
  for (const ModuleArrays& of : arrays) passes.forward(of);
  for (auto of = arrays.rbegin(); of != arrays.rend(); ++of) passes.backward(*of);
  return passes.most();
}

}  // namespace

template <class T>
std::size_t planned_bytes(const std::vector<ModulePtr<T>>& modules, const ParameterList& list,
                          const PipelineSchedule* schedule, int rank) {
  const auto bytes_of = [](const ArrayCounts& arrays) {
    return static_cast<std::size_t>(arrays.elements()) * sizeof(T);
  };
  const std::size_t converted = bytes_of(converted_arrays<T>(list));
  if (schedule == nullptr) return converted + bytes_of(most_of_passes(modules));
  std::vector<std::int64_t> inputs(static_cast<std::size_t>(schedule->stages()), 0);  // bytes
  std::map<std::int32_t, const Module<T>*> stages;
  for (std::int32_t s = 0; s < schedule->stages(); ++s) {
    const auto at = static_cast<std::size_t>(s);
    if (schedule->rank_of[at] != rank) continue;
    const Module<T>& stage = *modules[stages.size()];
    stages[s] = &stage;
    inputs[at] = stage.in_elements() * static_cast<std::int64_t>(sizeof(T));
    if (s + 1 < schedule->stages()) inputs[at + 1] = stage.out_elements() * static_cast<std::int64_t>(sizeof(T));
  }
  std::size_t bytes = converted + bytes_of(most_in_pipeline(stages, *schedule, rank)) +
                      PipelineRunner::held_for(*schedule, rank, inputs) +
                      PipelineRunner::held_for(forward_only(*schedule), rank, inputs);  // for evaluations
  for (const DataParameter& p : list.copies())
    bytes += static_cast<std::size_t>(p.box.elements()) * (size_of(p.dtype) + size_of(p.gradient_dtype()));
  return bytes;
}

template std::size_t planned_bytes(const std::vector<ModulePtr<float>>&, const ParameterList&, const PipelineSchedule*,
                                   int);
template std::size_t planned_bytes(const std::vector<ModulePtr<double>>&, const ParameterList&, const PipelineSchedule*,
                                   int);

}  // namespace sinew::parallel
