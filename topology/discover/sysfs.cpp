#include <algorithm>
#include <charconv>
#include <fstream>

#include <sinew/topology/discover/sysfs.hpp>

namespace sinew {

namespace fs = std::filesystem;

std::optional<std::string> read_line(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  return std::getline(stream, line) ? std::optional(std::move(line)) : std::nullopt;
}

std::optional<double> leading_number(const std::optional<std::string>& line) {
  double value = 0;
  if (!line) return std::nullopt;
  const auto [end, error] = std::from_chars(line->data(), line->data() + line->size(), value);
  return error == std::errc{} ? std::optional(value) : std::nullopt;
}

int int_or(const std::optional<std::string>& line, int otherwise) {
  return static_cast<int>(leading_number(line).value_or(otherwise));
}

std::string link_name(const fs::path& link) {
  std::error_code error;
  return fs::read_symlink(link, error).filename().string();
}

std::vector<std::string> entries(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

}  // namespace sinew
