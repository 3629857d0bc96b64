#pragma once

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

namespace sinew::test {

/// A folder with the /sys and /proc that were recorded on another machine, gone at the end of this object. A recording
/// has one line per line of a file, "PATH=TEXT", per file of bytes, "PATH := HEX", and per link, "PATH -> TARGET";
/// paths and targets start at the root. `grep -r . FOLDER`, `xxd -p` and `find FOLDER -type l -printf '%p -> %l\n'`
/// show a machine's.
class RecordedRoot {
 public:
  explicit RecordedRoot(const std::filesystem::path& recording)
      : root_(std::filesystem::temp_directory_path() / ("sinew-recorded-" + std::to_string(getpid()))) {
    std::ifstream lines(recording);
    if (!lines) throw std::runtime_error("cannot read " + recording.string());
    for (std::string line; std::getline(lines, line);) {
      if (!line.empty() && line.front() != '#') add(line);
    }
  }
  RecordedRoot(const RecordedRoot&) = delete;
  RecordedRoot& operator=(const RecordedRoot&) = delete;
  ~RecordedRoot() {
    std::error_code error;
    std::filesystem::remove_all(root_, error);
  }

  const std::filesystem::path& root() const { return root_; }
  std::filesystem::path sys() const { return root_ / "sys"; }

  /// Another text in a file, or a file more.
  void write(const std::filesystem::path& path, const std::string& text) const {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << "\n";
  }

 private:
  void add(const std::string& line) {
    namespace fs = std::filesystem;
    const std::size_t arrow = line.find(" -> ");
    const std::size_t bytes = line.find(" := ");
    const std::size_t equals = line.find('=');
    const std::size_t end = std::min({arrow, bytes, equals});
    const fs::path path = root_ / line.substr(0, end);
    fs::create_directories(path.parent_path());
    if (end == arrow) {
      fs::create_directories(root_ / line.substr(arrow + 4));
      fs::create_directory_symlink(root_ / line.substr(arrow + 4), path);
    } else if (end == bytes) {
      std::ofstream file(path, std::ios::binary);
      for (std::size_t at = bytes + 4; at + 1 < line.size(); at += 2) {
        file.put(static_cast<char>(std::stoi(line.substr(at, 2), nullptr, 16)));
      }
    } else {
      std::ofstream(path, std::ios::app) << line.substr(equals + 1) << "\n";
    }
  }

  std::filesystem::path root_;
};

}  // namespace sinew::test
