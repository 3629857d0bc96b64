#pragma once

#include <chrono>
#include <cstddef>
#include <string_view>

namespace sinew::tools {

/// One line on stderr that says how far a long job is. Prints nothing unless stderr is a terminal.
class Progress {
 public:
  explicit Progress(std::size_t steps);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Called before a step: "3 of 24: 64KiB, 12 s gone".
  void show(std::size_t step, std::string_view what);
  /// Called before other output to the same terminal.
  void clear();

 private:
  std::size_t steps_;
  bool terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace sinew::tools
