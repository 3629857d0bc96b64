#pragma once

#include <functional>

namespace sinew::fake {

/// Runs f on the threads of `teams` blocks, block after block. The threads of a block take turns: each runs until it
/// waits for others, and each warp until all its threads wait. Blocks, warps and threads run in a random order. So a
/// warp is soon ahead where a wait is missing, and writes what another one has not yet read.
/// Ends the process if all threads wait for each other, or if one of them ends while others wait for it.
/// Thread: one at a time.
void run_blocks(unsigned teams, const std::function<void()>& f);

}  // namespace sinew::fake
