#pragma once

#include <sinew/tools/bench/cases/options.hpp>

namespace sinew::tools {

/// Times every collective of equal counts by every way that can run it on these ranks, and writes the file that
/// SINEW_TUNE_FILE names. Ways that fall far behind are not followed to larger sizes. All ranks call it.
/// Errors: Error{System} where the file cannot be written.
int run_tune(const BenchOptions& options);

}  // namespace sinew::tools
