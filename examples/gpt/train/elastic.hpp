#pragma once

#include <sinew/collectives/world.hpp>

#include "../text/text.hpp"
#include "options.hpp"

namespace gpt {

/// As Training::run; when ranks die the others go on, as often as that happens (surviving_job). From the last step
/// where what they hold together is whole, else from the newest checkpoint. A rank that no layout has a place for ends
/// with 0.
/// Under a launcher that does not end a job with its first rank: `sinew-run --on-failure continue`.
/// Cost: while one World takes over from another its ranks hold both; the steps since the checkpoint.
int train_elastic(sinew::World& first, const Options& options, const Text& text);

}  // namespace gpt
