#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

namespace sinew::tools {

/// One line on stderr that says how far a long action is, how fast it is, and how long the rest takes if it goes on as
/// it went so far. Prints nothing unless stderr is a terminal. The line has no colours.
/// Thread: one at a time.
class Progress {
 public:
  /// `steps`: how many show() will tell of. 0: show_share() tells of them.
  explicit Progress(std::size_t steps = 0);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Called before step `step`: "3 of 24: 64KiB, 12 s gone, 90 s left". Short steps show a rate, too, and not each of
  /// them is shown.
  void show(std::size_t step, std::string_view what);
  /// The same for an action whose steps are not counted: "40 %: ring, 12 s gone, 18 s left". The line appears after two
  /// seconds. `share`: 0 to 1.
  void show_share(double share, std::string_view what);
  /// Called before other output to the same terminal.
  void clear();

 private:
  using Time = std::chrono::steady_clock::time_point;

  /// True if the line was not printed just now.
  bool is_due(Time now) const;
  void print(const std::string& line, Time now);

  std::size_t steps_;
  bool terminal_;
  bool shown_ = false;
  Time start_;
  Time shown_at_{};
};

/// "12 s gone", or if a share of more than 0 is done "12 s gone, 18 s left".
std::string time_gone_and_left(double gone_s, double share);

}  // namespace sinew::tools
