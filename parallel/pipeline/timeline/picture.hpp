#pragma once

#include <string>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/pipeline/schedule/schedule.hpp>
#include <sinew/parallel/pipeline/timeline/simulate.hpp>

namespace sinew::parallel {

// Of a schedule and its time line.

/// A drawing for browsers: a lane per rank with a box for each compute, coloured by what it is, darker for later stages
/// of a rank, and the micro-batch inside; a tooltip says the rest. No scripts, fonts or links from elsewhere. Of a
/// long time line the first 20,000 boxes: it says so.
SINEW_API std::string svg_of(const PipelineSchedule& schedule, const PipelineTimeLine& line);

/// JSON for chrome://tracing and Perfetto: a process per rank; compute as spans, what takes no time as instants.
/// Units: the costs' unit is shown as a microsecond.
SINEW_API std::string trace_of(const PipelineSchedule& schedule, const PipelineTimeLine& line);

}  // namespace sinew::parallel
