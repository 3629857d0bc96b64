#pragma once

#include <initializer_list>
#include <string_view>

#include <sinew/parallel/pipeline/schedule/schedule.hpp>

namespace sinew::parallel {

/// Errors: InvalidArgument where prove() refuses the schedule, or it has one of these kinds already.
void require_sound(const PipelineSchedule& schedule, std::string_view pass, std::initializer_list<ActionKind> added);

}  // namespace sinew::parallel
