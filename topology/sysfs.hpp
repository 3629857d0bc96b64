#pragma once

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

namespace sinew {

/// First line of a small file of the kernel's; nullopt where it is absent or the kernel refuses.
inline std::optional<std::string> read_line(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::string line;
  return std::getline(stream, line) ? std::optional(std::move(line)) : std::nullopt;
}

/// Last component of a link's target: ".../0000:3b:00.0" -> "0000:3b:00.0"; empty where there is no link.
inline std::string link_name(const std::filesystem::path& link) {
  std::error_code error;
  return std::filesystem::read_symlink(link, error).filename().string();
}

}  // namespace sinew
