#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

namespace sinew::test {

/// A recorded /sys as a folder, gone at the end of this object. A recording has one line per file, "PATH=TEXT", and per
/// link, "PATH -> TARGET"; paths and targets start at /sys. `grep -r . FOLDER` and `find FOLDER -type l -printf '%p ->
/// %l\n'` show a machine's.
class RecordedSysfs {
 public:
  explicit RecordedSysfs(const std::filesystem::path& recording)
      : root_(std::filesystem::temp_directory_path() / ("sinew-recorded-" + std::to_string(getpid()))) {
    namespace fs = std::filesystem;
    std::ifstream lines(recording);
    if (!lines) throw std::runtime_error("cannot read " + recording.string());
    for (std::string line; std::getline(lines, line);) {
      if (line.empty() || line.front() == '#') continue;
      const std::size_t arrow = line.find(" -> ");
      const std::size_t equals = line.find('=');
      const fs::path path = root_ / line.substr(0, std::min(arrow, equals));
      fs::create_directories(path.parent_path());
      if (arrow != std::string::npos) {
        fs::create_directories(root_ / line.substr(arrow + 4));
        fs::create_directory_symlink(root_ / line.substr(arrow + 4), path);
      } else {
        std::ofstream(path) << line.substr(equals + 1) << "\n";
      }
    }
  }
  RecordedSysfs(const RecordedSysfs&) = delete;
  RecordedSysfs& operator=(const RecordedSysfs&) = delete;
  ~RecordedSysfs() {
    std::error_code error;
    std::filesystem::remove_all(root_, error);
  }

  const std::filesystem::path& root() const { return root_; }

 private:
  std::filesystem::path root_;
};

}  // namespace sinew::test
