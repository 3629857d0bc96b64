#pragma once

#include <cstdio>
#include <string>

#include <sinew/collectives/communicator.hpp>

namespace sinew::tools {

/// Rank 0 writes a text that all ranks have alike. The other ranks wait for it, for 5 s at most, because a launcher
/// ends all ranks when the first one ends with a fault. Collective.
void say_once(Communicator& all, const std::string& text, std::FILE* to);

/// Returns whether any rank has a complaint; an empty text is none. Rank 0 writes what all ranks have alike once, and
/// complaints of some ranks with the numbers of these ranks. Collective.
bool any_complains(Communicator& all, const std::string& mine);

/// Writes an error that all ranks may have, or this rank alone. If the other ranks do something else for 5 s, this rank
/// writes its own.
void say_error(Communicator& all, const std::string& text);

}  // namespace sinew::tools
