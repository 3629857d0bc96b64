#include <charconv>
#include <sstream>

#include <sinew/core/system/file_text.hpp>
#include <sinew/core/system/kernel_files.hpp>

namespace sinew::kernel_files {
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

std::string behind_label(std::span<const std::string> lines, std::string_view label) {
  for (const std::string& line : lines) {
    if (!line.starts_with(label)) continue;
    const std::size_t first = line.find_first_not_of(" \t", label.size());
    if (first != label.size() && first != std::string::npos) return line.substr(first);
  }
  return {};
}

std::optional<std::uint64_t> labelled(const std::filesystem::path& file, std::string_view label) {
  return leading_number(behind_label(lines_in(file), label));
}

std::string chosen_in(const std::filesystem::path& file) {
  const std::string text = file_text(file.string()).value_or("");
  const std::size_t open = text.find('[');
  const std::size_t begin = open == std::string::npos ? 0 : open + 1;
  return text.substr(begin, text.find_first_of("] \n", begin) - begin);
}

}  // namespace sinew::kernel_files
