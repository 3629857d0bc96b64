#pragma once

#include <cstddef>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/modules/module.hpp>
#include <sinew/parallel/modules/parameter_list.hpp>
#include <sinew/parallel/pipeline/schedule/schedule.hpp>

namespace sinew::parallel {

/// The bytes that the passes of a rank's modules will hold, as Model::held_bytes() and PipelinedModel::held_bytes()
/// count them. They are activations of the microbatches in flight and room that passes use. In a pipeline, data between
/// stages, in training and in evaluation, and copies of other stages' parameters are included. Memory that layers share
/// is not: SharedAttention::planned_bytes() and the like.
/// modules: those of the rank's stages, in their order. list: the parameters that they have declared.
/// schedule: null for a Model. rank: the rank in the pipeline.
template <class T>
SINEW_API std::size_t planned_bytes(const std::vector<ModulePtr<T>>& modules, const ParameterList& list,
                                    const PipelineSchedule* schedule = nullptr, int rank = 0);

extern template std::size_t planned_bytes(const std::vector<ModulePtr<float>>&, const ParameterList&,
                                          const PipelineSchedule*, int);
extern template std::size_t planned_bytes(const std::vector<ModulePtr<double>>&, const ParameterList&,
                                          const PipelineSchedule*, int);

}  // namespace sinew::parallel
