#include "kernel_files.hpp"

#include <charconv>
#include <sstream>

#include <fmt/format.h>

#include <sinew/core/file_text.hpp>

namespace sinew::doctor {
namespace {

std::optional<std::uint64_t> leading_number(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} ? std::optional(number) : std::nullopt;
}

}  // namespace

std::vector<std::string> lines_in(const std::filesystem::path& file) {
  std::vector<std::string> lines;
  std::istringstream text(file_text(file.string()).value_or(""));
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

std::optional<std::uint64_t> number_in(const std::filesystem::path& file) {
  return leading_number(file_text(file.string()).value_or(""));
}

std::optional<std::uint64_t> labelled(const std::filesystem::path& file, std::string_view label) {
  for (const std::string& line : lines_in(file)) {
    if (!line.starts_with(label) || line.size() == label.size()) continue;
    const std::string_view rest = std::string_view(line).substr(label.size());
    const std::size_t first = rest.find_first_not_of(" \t");
    if (first != 0 && first != std::string_view::npos) return leading_number(rest.substr(first));
  }
  return std::nullopt;
}

std::string chosen_in(const std::filesystem::path& file) {
  const std::string text = file_text(file.string()).value_or("");
  const std::size_t open = text.find('[');
  const std::size_t begin = open == std::string::npos ? 0 : open + 1;
  return text.substr(begin, text.find_first_of("] \n", begin) - begin);
}

bool has_word(std::string_view list, std::string_view names) {
  for (;;) {
    const std::size_t comma = names.find(',');
    if (fmt::format(",{},", list).find(fmt::format(",{},", names.substr(0, comma))) == std::string::npos) return false;
    if (comma == std::string_view::npos) return true;
    names.remove_prefix(comma + 1);
  }
}

}  // namespace sinew::doctor
