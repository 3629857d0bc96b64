#pragma once

#include <sinew/tools/bench/cases/options.hpp>

namespace sinew::tools {

/// Starts or joins the world, measures what the options ask for and prints on rank 0.
/// Returns the exit code: 1 if a result was wrong.
/// Errors: Error{InvalidArgument} for options that are found wrong only in the world: for example, too few ranks or an
///         algorithm that does not exist.
int run_bench(const BenchOptions& options);

}  // namespace sinew::tools
