#include <algorithm>
#include <cstdint>
#include <map>

#include <sinew/parallel/job/pipeline_schedule.hpp>
#include <sinew/parallel/modules/models/planned_bytes.hpp>
#include <sinew/parallel/pipeline/pipeline_runner.hpp>

namespace sinew::parallel {
namespace {

template <class T>
std::size_t bytes_of(std::int64_t elements) {
  return static_cast<std::size_t>(elements) * sizeof(T);
}

/// Room for parameters, and their gradients, that modules see in another dtype. The pool keeps arrays of each length:
/// one of values, and two to add a gradient up.
template <class T>
std::size_t converted_bytes(const ParameterList& list) {
  std::map<std::int64_t, std::int64_t> arrays;  // by length
  for (const DataParameter& p : list.dense().parameters) {
    const std::int64_t of_values = size_of(p.dtype) < sizeof(T) ? 1 : 0;
    const std::int64_t of_gradients = size_of(p.gradient_dtype()) < sizeof(T) ? 2 : 0;
    std::int64_t& most = arrays[p.box.elements()];
    most = std::max(most, of_values + of_gradients);
  }
  std::int64_t elements = 0;
  for (const auto& [length, count] : arrays) elements += length * count;
  return bytes_of<T>(elements);
}

}  // namespace

template <class T>
std::size_t planned_bytes(const std::vector<ModulePtr<T>>& modules, const ParameterList& list,
                          const PipelineSchedule* schedule, int rank) {
  std::size_t bytes = converted_bytes<T>(list), room = 0;
  for (const ModulePtr<T>& module : modules) room = std::max(room, module->room_bytes());
  bytes += room;
  if (schedule == nullptr) {
    for (const ModulePtr<T>& module : modules) bytes += module->kept_bytes();
    return bytes;
  }
  const std::vector<std::int32_t> live = most_live(*schedule);
  std::vector<std::int64_t> inputs(static_cast<std::size_t>(schedule->stages()), 0);  // bytes
  std::size_t own = 0;
  for (std::int32_t s = 0; s < schedule->stages(); ++s) {
    const auto at = static_cast<std::size_t>(s);
    if (schedule->rank_of[at] != rank) continue;
    const Module<T>& stage = *modules[own++];
    const std::size_t in = bytes_of<T>(stage.in_elements()), out = bytes_of<T>(stage.out_elements());
    inputs[at] = static_cast<std::int64_t>(in);
    if (s + 1 < schedule->stages()) inputs[at + 1] = static_cast<std::int64_t>(out);
    std::size_t kept = stage.kept_bytes() + in;
    if (has_late_weights(*schedule)) kept += stage.deferred_bytes() + out;
    bytes += kept * static_cast<std::size_t>(live[at]);
  }
  bytes += PipelineRunner::held_for(*schedule, rank, inputs);
  for (const DataParameter& p : list.copies())
    bytes += static_cast<std::size_t>(p.box.elements()) * (size_of(p.dtype) + size_of(p.gradient_dtype()));
  return bytes;
}

template std::size_t planned_bytes(const std::vector<ModulePtr<float>>&, const ParameterList&, const PipelineSchedule*,
                                   int);
template std::size_t planned_bytes(const std::vector<ModulePtr<double>>&, const ParameterList&, const PipelineSchedule*,
                                   int);

}  // namespace sinew::parallel
