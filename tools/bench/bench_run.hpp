#pragma once

#include "options.hpp"

namespace sinew::tools {

/// Starts or joins the world, measures what the options ask for, prints on rank 0. Returns the exit code: 1 if a
/// result was wrong. Errors: Error{InvalidArgument} for what only the world could tell: too few ranks, an algorithm
/// that is not there.
int run_bench(const BenchOptions& options);

/// This process's rank as its launcher numbers it, 0 where there is none: who speaks before there is a world.
int launched_rank() noexcept;

}  // namespace sinew::tools
