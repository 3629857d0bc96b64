#include <sstream>

#include <fmt/format.h>

#include <sinew/collectives/trace/chrome_trace.hpp>
#include <sinew/parallel/pipeline/schedule/action_text.hpp>
#include <sinew/parallel/pipeline/timeline/picture.hpp>

namespace sinew::parallel {

std::string trace_of(const PipelineSchedule& schedule, const PipelineTimeLine& line) {
  std::ostringstream text;
  ChromeTrace trace(
      text, {{"schedule", schedule.name}, {"micro_batches", schedule.micro_batches}, {"makespan", line.makespan}});
  for (std::size_t r = 0; r < schedule.actions.size(); ++r) {
    const TraceLane compute{static_cast<int>(r), 0}, instants{static_cast<int>(r), 1};
    trace.name_process(static_cast<int>(r), fmt::format("rank {}", r));
    trace.name_thread(compute, "compute");
    trace.name_thread(instants, "messages and parameters");
    for (std::size_t i = 0; i < schedule.actions[r].size(); ++i) {
      const Action& a = schedule.actions[r][i];
      const PipelineTimeLine::Span& span = line.spans[r][i];
      TraceEvent event{.lane = is_compute(a.kind) ? compute : instants,
                       .name = to_string(a),
                       .start_us = static_cast<double>(span.start),
                       .fields = {{"stage", a.stage}}};
      if (has_micro_batch(a.kind)) event.fields.emplace_back("micro_batch", a.micro_batch);
      if (is_compute(a.kind)) {
        trace.span(event, static_cast<double>(span.end - span.start));
      } else {
        trace.instant(event);
      }
    }
  }
  trace.end();
  return text.str();
}

}  // namespace sinew::parallel
