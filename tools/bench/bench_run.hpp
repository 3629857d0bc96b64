#pragma once

#include <sinew/tools/bench/cases/options.hpp>

namespace sinew::tools {

/// Starts or joins the world, measures what the options ask for, prints on rank 0. Returns the exit code: 1 if a
/// result was wrong. Errors: Error{InvalidArgument} for what only the world could tell: too few ranks, an algorithm
/// that is not there.
int run_bench(const BenchOptions& options);

/// Before there is a world: this process is by its launcher's variables a rank other than 0, so that rank 0 says what
/// all have found. False where the rank cannot be one, for then nobody else is sure to say anything.
bool another_rank_speaks() noexcept;

}  // namespace sinew::tools
