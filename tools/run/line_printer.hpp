#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "event_loop.hpp"
#include "outlet.hpp"

namespace sinew::run {

enum class Stream : int { Output = 1, Errors = 2 };  // the descriptors they go to

/// Whole lines of many ranks, one after the other, each behind "[RANK] " unless that is not wanted. A line longer than
/// kLongestLine comes in pieces. It waits for nobody who reads: what is not taken yet is kept.
class LinePrinter {
 public:
  static constexpr std::size_t kLongestLine = 1 << 20;
  static constexpr std::size_t kMostKept = 64 << 20;  ///< bytes of a stream, once ranks are not held

  /// Says that ranks shall be held, or no longer: Outlet::kFull bytes of that stream wait to be read.
  using Hold = std::function<void(Stream stream, bool on)>;
  LinePrinter(EventLoop& loop, bool prefixes, Hold hold);

  void take(int rank, Stream stream, std::string_view bytes);
  /// The rank has ended: what it left without a newline is a line.
  void finish(int rank);
  /// A line of sinew-run's own, on stderr.
  void say(std::string_view line);
  /// From now on no rank is held, which would keep it from ending: beyond kMostKept its output is lost.
  void hold_no_more();
  /// Some of it has not been read yet.
  bool busy() const noexcept { return output_.waiting() != 0 || errors_.waiting() != 0; }
  /// Nobody has taken any for so long.
  Duration stuck() const noexcept;
  /// Loses what has not been read.
  void forget();
  /// Nobody reads our output any more.
  bool closed() const noexcept { return closed_; }
  /// Some of it could not be written, for any other reason; said once, on stderr.
  bool lost() const noexcept { return lost_; }

 private:
  Outlet::Events events_of(Stream stream);
  Outlet& outlet(Stream stream) noexcept { return stream == Stream::Output ? output_ : errors_; }
  std::string prefix_of(int rank) const;
  void lose(Stream stream, std::string_view why);
  void write(Stream stream, std::string_view text);

  std::map<std::pair<int, Stream>, std::string> partial_;
  bool prefixes_;
  Hold hold_;
  bool holds_ = true;
  bool closed_ = false;
  bool lost_ = false;
  Outlet output_;
  Outlet errors_;
};

}  // namespace sinew::run
