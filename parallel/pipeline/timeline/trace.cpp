#include <cstddef>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <sinew/parallel/pipeline/schedule/action_text.hpp>
#include <sinew/parallel/pipeline/timeline/picture.hpp>
#include <sinew/topology/format/json/json_text.hpp>

namespace sinew::parallel {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kCompute = "compute";
constexpr std::string_view kInstants = "messages and parameters";

Json event_of(const Action& a, const PipelineTimeLine::Span& span, std::size_t rank) {
  Json event{{"name", to_string(a)}, {"pid", rank}, {"tid", is_compute(a.kind) ? 0 : 1}, {"ts", span.start}};
  if (is_compute(a.kind)) {
    event["ph"] = "X";
    event["dur"] = span.end - span.start;
  } else {
    event["ph"] = "i";
    event["s"] = "t";
  }
  event["args"] = {{"stage", a.stage}};
  if (has_micro_batch(a.kind)) event["args"]["micro_batch"] = a.micro_batch;
  return event;
}

Json name(std::string_view what, std::size_t rank, int thread, std::string_view text) {
  return {{"ph", "M"}, {"name", what}, {"pid", rank}, {"tid", thread}, {"args", {{"name", text}}}};
}

}  // namespace

std::string trace_of(const PipelineSchedule& schedule, const PipelineTimeLine& line) {
  std::string events;
  const auto add = [&](const Json& event) { events += (events.empty() ? "\n" : ",\n") + json_text(event); };
  for (std::size_t r = 0; r < schedule.actions.size(); ++r) {
    add(name("process_name", r, 0, fmt::format("rank {}", r)));
    add(name("thread_name", r, 0, kCompute));
    add(name("thread_name", r, 1, kInstants));
    for (std::size_t i = 0; i < schedule.actions[r].size(); ++i)
      add(event_of(schedule.actions[r][i], line.spans[r][i], r));
  }
  const Json about{{"schedule", schedule.name}, {"micro_batches", schedule.micro_batches}, {"makespan", line.makespan}};
  return fmt::format("{{\"otherData\":{},\"traceEvents\":[{}\n]}}\n", json_text(about), events);
}

}  // namespace sinew::parallel
