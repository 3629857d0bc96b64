#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace sinew::run {

enum class Stream : int { Output = 1, Errors = 2 };  // the descriptors they go to

/// Whole lines of many ranks, one after the other, each behind "[RANK] " unless that is not wanted. A line longer than
/// kLongestLine comes in pieces.
class LinePrinter {
 public:
  static constexpr std::size_t kLongestLine = 1 << 20;

  explicit LinePrinter(bool prefixes) : prefixes_(prefixes) {}

  void take(int rank, Stream stream, std::string_view bytes);
  /// The rank has ended: what it left without a newline is a line.
  void finish(int rank);
  /// Nobody reads our output any more.
  bool closed() const noexcept { return closed_; }
  /// Some of it could not be written, for any other reason; said once, on stderr.
  bool lost() const noexcept { return lost_; }

 private:
  std::string prefix_of(int rank) const;
  void lose(Stream stream, int error_number);
  void write(Stream stream, std::string_view text);

  std::map<std::pair<int, Stream>, std::string> partial_;
  bool prefixes_;
  bool closed_ = false;
  bool lost_ = false;
};

}  // namespace sinew::run
