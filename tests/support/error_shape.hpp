#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sinew::test {

/// What is wrong with an error's text about a communicator, none of whose ranks the World numbers as it does: a rank by
/// the communicator's number alone, a communicator by its id, or a place in sinew's own sources. Empty: nothing.
std::string fault_of_error(std::string_view text, const std::vector<int>& world_ranks, std::string_view communicator);

}  // namespace sinew::test
