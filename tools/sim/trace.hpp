#pragma once

#include <iosfwd>
#include <string>

#include <sinew/collectives/simulator/forecast.hpp>

namespace sinew::tools {

/// Writes the time line for chrome://tracing and Perfetto: a process for each simulated rank, and in it threads for
/// sends, receives, copies and reductions. Steps of a kind that run at the same time get further threads, because
/// viewers show no spans of a thread that overlap. A very long time line is cut after its first half million spans:
/// "otherData" says how many are left out.
void write_trace(std::ostream& to, const std::string& title, const Forecast& forecast);

}  // namespace sinew::tools
