#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/topology/format/json/json_object.hpp>

namespace sinew {

/// Where an event is shown: viewers draw a lane for each thread, below the name of its process.
struct TraceLane {
  int process = 0;
  std::uint32_t thread = 0;
};

/// An event on a lane. It happens at a moment, or begins at that moment.
struct TraceEvent {
  TraceLane lane;
  std::string name;
  std::string category{};  ///< viewers can hide a category; empty: none
  double start_us = 0;
  std::vector<JsonField> fields{};  ///< viewers show them beside the event
};

/// Writes a time line in the JSON object form of Chrome's trace event format, which chrome://tracing and
/// https://ui.perfetto.dev read. Each event goes to the stream at once, so that a trace may be longer than memory.
/// Names and texts may hold any bytes: quotes are escaped, and what is not UTF-8 becomes U+FFFD.
/// Units:    microseconds since any moment, the same for all events. Fractions of a microsecond are kept.
/// Lifetime: the stream outlives this object.
/// Errors:   the stream's own; the caller looks at the stream's state.
/// Source:   "Trace Event Format", https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
class SINEW_API ChromeTrace {
 public:
  /// `about`: facts of the whole trace, which are written at its beginning.
  explicit ChromeTrace(std::ostream& to, const std::vector<JsonField>& about = {});
  ChromeTrace(const ChromeTrace&) = delete;
  ChromeTrace& operator=(const ChromeTrace&) = delete;

  /// Viewers show processes in the order of their numbers.
  void name_process(int process, std::string_view name);
  void name_thread(TraceLane lane, std::string_view name);

  /// Two spans of a lane may overlap only if one lies within the other. Otherwise viewers show only one of them.
  void span(const TraceEvent& event, double duration_us);
  /// A span whose end is not known.
  void open_span(const TraceEvent& event);
  /// An event without a duration.
  void instant(const TraceEvent& event);

  /// Ends the file. Nothing may follow.
  void end();

 private:
  void write(const std::string& event);

  std::ostream& to_;
  bool first_ = true;
};

}  // namespace sinew
