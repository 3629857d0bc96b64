#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include <sinew/core/base/export.hpp>
#include <sinew/core/system/file_descriptor.hpp>

namespace sinew {

/// A new file of this user alone, in the place of one that is there: never over a link.
/// Errors: Error{System} naming the file.
SINEW_API FileDescriptor create_private_file(const std::string& path);

/// Takes room on the disk for `bytes` more bytes from `first` on, so that writing them through a mapping cannot fail.
/// Errors: Error{System} beginning with `what`, with errno set: a full disk, or a limit on the sizes of files.
SINEW_API void take_room(const FileDescriptor& file, std::size_t first, std::size_t bytes, const std::string& what);

/// A file of that many bytes, made new and mapped for writing: what a rank writes there outlives it.
/// Errors: Error{System} naming the file.
SINEW_API std::shared_ptr<std::byte> create_mapped_file(const std::string& path, std::size_t bytes);
/// The file of another rank, to read. nullptr where it cannot be read from here.
SINEW_API std::shared_ptr<const std::byte> map_file(const std::string& path, std::size_t bytes) noexcept;

}  // namespace sinew
