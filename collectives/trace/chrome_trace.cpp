#include <ostream>
#include <utility>

#include <sinew/collectives/trace/chrome_trace.hpp>

namespace sinew {
namespace {

/// Returns the JSON object of `fields` with one more field "args", which is the object of `args`.
std::string with_args(const std::vector<JsonField>& fields, const std::vector<JsonField>& args) {
  std::string text = json_object(fields);
  text.pop_back();  // the closing brace
  return text + R"(,"args":)" + json_object(args) + '}';
}

/// `phase`: "X" is a whole span, "B" the beginning of a span, "i" an instant. `more`: the fields that only events of
/// this phase have.
std::string event_text(const char* phase, const TraceEvent& event, const std::vector<JsonField>& more = {}) {
  std::vector<JsonField> fields{{"ph", phase}, {"name", event.name}};
  if (!event.category.empty()) fields.emplace_back("cat", event.category);
  fields.emplace_back("pid", event.lane.process);
  fields.emplace_back("tid", event.lane.thread);
  fields.emplace_back("ts", event.start_us);
  fields.insert(fields.end(), more.begin(), more.end());
  return with_args(fields, event.fields);
}

/// Returns a metadata event, which states the name or the position of a process or thread.
std::string fact_text(const char* what, TraceLane lane, const JsonField& value) {
  return with_args({{"ph", "M"}, {"name", what}, {"pid", lane.process}, {"tid", lane.thread}}, {value});
}

}  // namespace

ChromeTrace::ChromeTrace(std::ostream& to, const std::vector<JsonField>& about) : to_(to) {
  to_ << R"({"displayTimeUnit":"ns","otherData":)" << json_object(about) << R"(,"traceEvents":[)";
}

void ChromeTrace::name_process(int process, std::string_view name) {
  write(fact_text("process_name", {process, 0}, {"name", name}));
  write(fact_text("process_sort_index", {process, 0}, {"sort_index", process}));
}

void ChromeTrace::name_thread(TraceLane lane, std::string_view name) {
  write(fact_text("thread_name", lane, {"name", name}));
}

void ChromeTrace::span(const TraceEvent& event, double duration_us) {
  write(event_text("X", event, {{"dur", duration_us}}));
}

void ChromeTrace::open_span(const TraceEvent& event) { write(event_text("B", event)); }

void ChromeTrace::instant(const TraceEvent& event) {
  write(event_text("i", event, {{"s", "t"}}));  // scope "t": viewers draw the mark in its lane only
}

void ChromeTrace::end() { to_ << "\n]}\n"; }

void ChromeTrace::write(const std::string& event) { to_ << (std::exchange(first_, false) ? "\n" : ",\n") << event; }

}  // namespace sinew
