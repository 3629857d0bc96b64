#pragma once

#include <sinew/collectives/world.hpp>

#include "../text/text.hpp"
#include "options.hpp"

namespace gpt {

/// The whole run: says what it does, trains, saves. Returns the program's exit code.
/// Errors: as its parts; InvalidArgument on all ranks alike.
int run(sinew::World& world, const Options& options, const Text& text);

/// The text that options ask for; none where nothing is trained.
Text text_of(const Options& options);

}  // namespace gpt
