#pragma once

#include <sinew/tools/bench/cases/options.hpp>

namespace sinew::tools {

/// Starts or joins the world, measures what the options ask for and prints on rank 0.
/// Returns the exit code: 1 if a result was wrong.
/// Errors: Error{InvalidArgument} for what only the world could tell: too few ranks, an algorithm that does not exist.
int run_bench(const BenchOptions& options);

/// Whether the launcher's variables make this process a rank other than 0. Such a rank leaves it to rank 0 to report
/// what all ranks have found. Known before there is a world. False where the variables are wrong: then no other rank is
/// sure to report anything.
bool another_rank_speaks() noexcept;

}  // namespace sinew::tools
