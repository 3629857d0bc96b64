#pragma once

#include <sys/types.h>

#include <string>

#include <sinew/core/base/export.hpp>

namespace sinew {

/// A file that is replaced as a whole, by rename, again and again. A reader finds an old text or a new one, never a
/// part. The new text is first written to "PATH.PROCESS.tmp".
/// Errors: the first failure is one warning that names the path and the reason. Later writes try again without a word.
/// Thread: one at a time.
class SINEW_API MetricsFile {
 public:
  explicit MetricsFile(std::string path) : path_(std::move(path)) {}

  void write(const std::string& text);

 private:
  void warn(const std::string& what);
  /// Warns if another process has put its file where this one had put its own.
  void look_for_another_writer();

  std::string path_;
  dev_t device_ = 0;  // of the file that was written last; with its number
  ino_t number_ = 0;  // 0: none was written
  bool has_warned_ = false;
};

}  // namespace sinew
