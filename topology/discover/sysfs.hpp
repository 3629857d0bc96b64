#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

/// Small files of the kernel's; for the readers in this folder.
namespace sinew {

/// First line of a file; nullopt where it is absent or the kernel refuses.
std::optional<std::string> read_line(const std::filesystem::path& file);

/// The number that a line starts with: 100 of "100 Gb/sec (4X EDR)".
std::optional<double> leading_number(const std::optional<std::string>& line);
int int_or(const std::optional<std::string>& line, int otherwise);

/// Last component of a link's target: ".../0000:3b:00.0" -> "0000:3b:00.0"; empty where there is no link.
std::string link_name(const std::filesystem::path& link);

/// Names in a folder, in their order; none where it is absent.
std::vector<std::string> entries(const std::filesystem::path& folder);

}  // namespace sinew
