#pragma once

// The files of a checkpoint. The room reads and writes files, with their checksums and their safetensors headers. It
// may include the room `index`.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <sinew/core/system/file_descriptor.hpp>

namespace sinew::parallel {

/// A new file that is written from its beginning to its end.
/// Errors: System with the file's name, how far it was written, and what the system says.
class NewFile {
 public:
  explicit NewFile(std::string path);

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  /// The file is on the disk when this returns.
  void finish();

 private:
  std::string path_;
  FileDescriptor file_;
  std::uint64_t written_ = 0;
};

/// A file that is read here and there.
/// Errors: System where it cannot be read; InvalidArgument where it is shorter or longer than expected.
class StoredBytes {
 public:
  StoredBytes(std::string path, std::uint64_t expected_bytes);

  const std::string& path() const noexcept { return path_; }
  void read(std::uint64_t offset, std::span<std::byte> into) const;

 private:
  std::string path_;
  FileDescriptor file_;
};

/// Puts the entries of the folder on the disk.
/// Errors: System.
void sync_folder(const std::string& folder);

}  // namespace sinew::parallel
