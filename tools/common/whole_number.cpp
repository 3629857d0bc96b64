#include "whole_number.hpp"

#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <sinew/core/base/parse_number.hpp>
#include <sinew/core/base/shown_value.hpp>

namespace sinew::tools {

CLI::Validator whole_number(std::int64_t least, std::int64_t most) {
  const auto check = [least, most](std::string& text) -> std::string {
    const auto value = parse_number<std::int64_t>(text);
    if (value && *value >= least && *value <= most) return {};
    return fmt::format("'{}': expected a whole number, {} to {}", shown_value(text), least, most);
  };
  return {check, fmt::format("{} to {}", least, most)};
}

}  // namespace sinew::tools
