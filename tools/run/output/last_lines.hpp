#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sinew::run {

/// The end of what somebody prints: at most kBytes of it, and of these at most kLines lines.
class LastLines {
 public:
  static constexpr std::size_t kBytes = 4096;
  static constexpr int kLines = 20;

  void take(std::string_view bytes);
  /// Whole lines, unless the last line alone is longer than kBytes.
  std::string text() const;

 private:
  std::string kept_;
  bool cut_ = false;  // before the first byte that is kept
};

}  // namespace sinew::run
