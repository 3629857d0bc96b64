#pragma once

#include <sinew/tools/bench/cases/options.hpp>

namespace sinew::tools {

/// Starts or joins the world, measures what the options ask for and prints on rank 0.
/// Returns the exit code: 1 if a result was wrong.
/// Errors: Error{InvalidArgument} for options that are found wrong only in the world: for example, too few ranks or an
///         algorithm that does not exist.
int run_bench(const BenchOptions& options);

/// True if the launcher's variables make this process a rank other than 0. Such a rank leaves it to rank 0 to report
/// faults that all ranks find. The world need not exist yet. If the variables are wrong, the result is false, and every
/// rank reports its faults.
bool another_rank_speaks() noexcept;

}  // namespace sinew::tools
