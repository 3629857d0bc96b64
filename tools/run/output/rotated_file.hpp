#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <sinew/core/system/file_descriptor.hpp>

namespace sinew::run {

/// When a log file gives way to a new one.
struct Rotation {
  std::uint64_t bytes = 0;  ///< the most that a file holds; 0: there is no limit
  int kept = 0;             ///< how many full files stay
};

/// A file that is written from its beginning. Where the next line would not fit, PATH becomes PATH.1, PATH.1 becomes
/// PATH.2 and so on, and PATH begins anew. Only a line that is longer than a file, or that arrives in two pieces, is
/// cut between two files.
class RotatedFile {
 public:
  /// Errors: Error{System} "PATH: Permission denied" where it cannot be made.
  RotatedFile(std::string path, Rotation rotation);

  /// Errors: Error{System} where not all of it could be written.
  void write(std::string_view bytes);

 private:
  void open();
  void rotate();
  void append(std::string_view bytes);

  std::string path_;
  Rotation rotation_;
  FileDescriptor file_;
  std::uint64_t written_ = 0;
};

}  // namespace sinew::run
