#pragma once

#include <string>

#include <sinew/collectives/simulator/forecast.hpp>

namespace sinew::tools {

/// The time line as JSON for chrome://tracing and Perfetto: a process for each simulated rank, in it threads for sends,
/// receives, copies and reductions; further ones of a kind where several are under way at a time, as viewers show no
/// spans of a thread that overlap. The earliest spans, if there are very many: "otherData" says how many are left out.
/// Units: microseconds.
std::string trace_of(const std::string& title, const Forecast& forecast);

}  // namespace sinew::tools
