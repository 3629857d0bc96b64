#include <cstdlib>

#include <fmt/format.h>

#include <sinew/collectives/launch/lookup.hpp>
#include <sinew/core/base/parse_number.hpp>
#include <sinew/core/base/shown_value.hpp>
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
                fmt::format("{}={}: expected a whole number, {} to {}", name, shown_value(*text), least, most));
  }
  return value;
}

}  // namespace sinew
