#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Small files of the kernel's, below / or a recorded tree.
namespace sinew::doctor {

/// None where the file is absent.
std::vector<std::string> lines_in(const std::filesystem::path& file);
/// The whole number that a file starts with.
std::optional<std::uint64_t> number_in(const std::filesystem::path& file);
/// The number behind a label that starts a line: "MemAvailable:   1234 kB" -> 1234 for "MemAvailable:".
std::optional<std::uint64_t> labelled(const std::filesystem::path& file, std::string_view label);
/// The choice in brackets: "always [madvise] never" -> "madvise"; without brackets the first word; empty: no file.
std::string chosen_in(const std::filesystem::path& file);

/// Is every name of `names` (with commas between them) among those of `list`?
bool has_word(std::string_view list, std::string_view names);

}  // namespace sinew::doctor
