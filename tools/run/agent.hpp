#pragma once

namespace sinew::run {

/// `sinew-run --agent`: one host's share of a job, as standard input says. Returns the exit code.
int run_agent();

}  // namespace sinew::run
