#pragma once

#include <sinew/collectives/world.hpp>

#include "options.hpp"

namespace gpt {

/// The whole run: says what it does, trains, saves. Returns the program's exit code.
/// Errors: as its parts; InvalidArgument on all ranks alike.
int run(sinew::World& world, const Options& options);

}  // namespace gpt
