#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sinew::test {

/// Checks an error's text about a communicator whose ranks all have other numbers in the World. Returns the first
/// fault, or an empty string. Faults are a rank shown by its number in the communicator alone, a communicator shown by
/// its id, and a line of sinew's own sources.
std::string fault_of_error(std::string_view text, const std::vector<int>& world_ranks, std::string_view communicator);

}  // namespace sinew::test
