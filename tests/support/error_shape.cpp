#include "error_shape.hpp"

#include <algorithm>
#include <regex>

#include <fmt/format.h>

namespace sinew::test {

std::string fault_of_error(std::string_view text, const std::vector<int>& world_ranks, std::string_view communicator) {
  const std::string all(text);
  if (all.find(communicator) == std::string::npos) return fmt::format("it does not name '{}'", communicator);
  if (std::regex_search(all, std::regex("communicator [0-9]"))) return "it shows a communicator's id";
  std::smatch place;
  if (std::regex_search(all, place, std::regex("[^ ]*(core|collectives|parallel)/[a-z_/]*\\.[ch]pp:[0-9]+")))
    if (place.str().find("tests/") == std::string::npos) return "it shows sinew's own line " + place.str();
  const std::regex ranks("\\branks? ([0-9]+(?:, [0-9]+)*)");
  for (auto at = std::sregex_iterator(all.begin(), all.end(), ranks); at != std::sregex_iterator(); ++at) {
    const std::string numbers = (*at)[1];
    const std::regex number("[0-9]+");
    for (auto n = std::sregex_iterator(numbers.begin(), numbers.end(), number); n != std::sregex_iterator(); ++n) {
      if (std::ranges::find(world_ranks, std::stoi(n->str())) == world_ranks.end())
        return fmt::format("'{}' is none of the World's ranks of the communicator", at->str());
    }
  }
  return {};
}

}  // namespace sinew::test
