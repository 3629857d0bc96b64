#pragma once

#include <sinew/tools/bench/cases/options.hpp>

namespace sinew::tools {

/// Times every collective of equal counts with every candidate that can run it on these ranks, and writes the file that
/// SINEW_TUNE_FILE names. With --device the buffers are in the memory of the ranks' devices, and times of host memory
/// that the file holds already stay in it. Candidates that fall far behind are not timed at larger sizes. All ranks
/// call it together.
/// Errors: Error{System} where the file cannot be written.
int run_tune(const BenchOptions& options);

}  // namespace sinew::tools
