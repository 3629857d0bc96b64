#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include <sinew/core/export.hpp>

namespace sinew {

/// A file of that many bytes, made new and mapped for writing: what a rank writes there outlives it.
/// Errors: Error{System} naming the file.
SINEW_API std::shared_ptr<std::byte> create_mapped_file(const std::string& path, std::size_t bytes);
/// The file of another rank, to read. nullptr where it cannot be read from here.
SINEW_API std::shared_ptr<const std::byte> map_file(const std::string& path, std::size_t bytes) noexcept;

}  // namespace sinew
