#pragma once

#include <sinew/tools/bench/cases/options.hpp>

namespace sinew::tools {

/// Times every collective of equal counts with every candidate that can run it on these ranks, and writes the file that
/// SINEW_TUNE_FILE names. Candidates that fall far behind are not timed at larger sizes. All ranks call it together.
/// Errors: Error{System} where the file cannot be written.
int run_tune(const BenchOptions& options);

}  // namespace sinew::tools
