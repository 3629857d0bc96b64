#include "whole_number.hpp"

#include <charconv>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace sinew::tools {

CLI::Validator whole_number(std::int64_t least, std::int64_t most) {
  const auto check = [least, most](std::string& text) -> std::string {
    std::int64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [read, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc{} && read == end && value >= least && value <= most) return {};
    return fmt::format("'{}': expected a whole number, {} to {}", text, least, most);
  };
  return {check, fmt::format("{} to {}", least, most)};
}

}  // namespace sinew::tools
