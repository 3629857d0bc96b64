#include <cstdlib>

#include <fmt/format.h>

#include <sinew/collectives/launch/lookup.hpp>
#include <sinew/core/base/parse_number.hpp>
#include <sinew/core/error.hpp>

namespace sinew {

Lookup process_environment() {
  return [](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

std::optional<int> variable_number(const Lookup& lookup, const char* name, int least, int most) {
  const auto text = lookup(name);
  if (!text) return std::nullopt;
  const auto value = parse_number<int>(*text);
  if (!value || *value < least || *value > most) {
    throw Error(Code::InvalidArgument,
                most == std::numeric_limits<int>::max()
                    ? fmt::format("{}={}: expected a whole number of at least {}", name, *text, least)
                    : fmt::format("{}={}: expected a whole number of {}..{}", name, *text, least, most));
  }
  return value;
}

}  // namespace sinew
