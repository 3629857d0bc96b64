#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/core/base/export.hpp>

/// Readers of the kernel's small text files, below / or a recorded tree.
namespace sinew::kernel_files {

/// None where the file is absent.
SINEW_API std::vector<std::string> lines_in(const std::filesystem::path& file);
/// The whole number that a file starts with.
SINEW_API std::optional<std::uint64_t> number_in(const std::filesystem::path& file);
/// What follows the blanks after a label that starts a line: "1000 1000" for "Uid:"; empty: there is no such line.
SINEW_API std::string behind_label(std::span<const std::string> lines, std::string_view label);
/// The number behind a label that starts a line: "MemAvailable:   1234 kB" -> 1234 for "MemAvailable:".
SINEW_API std::optional<std::uint64_t> labelled(const std::filesystem::path& file, std::string_view label);
/// The choice in brackets: "always [madvise] never" -> "madvise"; without brackets the first word; empty: no file.
SINEW_API std::string chosen_in(const std::filesystem::path& file);

}  // namespace sinew::kernel_files
