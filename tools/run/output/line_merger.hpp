#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "stream.hpp"

namespace sinew::run {

/// Merges what many sources print into one sequence of bytes, line by line. The bytes of each source keep their order.
/// A line of up to kLongestKept bytes is kept until it has ended. A longer line goes out while it is being printed: its
/// source then has the turn until the line ends, and the other sources wait, so that the lines of all stay whole.
/// A source that never ends its line cannot keep the others waiting for ever: its line is cut
///   - by review(), if it grew by less than kLeastGrowth since the last review;
///   - when another source waits and the line has more than kLongestLine bytes;
///   - when the others cannot be held any more, and have printed more than kMostKept bytes meanwhile.
/// With prefixes, a cut line gets a newline, and goes on behind another prefix. Without prefixes no byte is ever added
/// to what a rank prints: the line of another source follows at once.
class LineMerger {
 public:
  static constexpr std::size_t kLongestKept = 1 << 20;
  static constexpr std::size_t kMostKept = 32 << 20;
  static constexpr std::uint64_t kLongestLine = std::uint64_t{1} << 30;
  static constexpr std::uint64_t kLeastGrowth = 1 << 20;

  struct Events {
    std::function<void(std::string_view bytes)> put;
    /// On: no more bytes of this source are wanted for now. Those that come all the same are kept.
    std::function<void(Source source, bool on)> hold;
    /// On: sources wait for the end of another one's line, so that review() is due after a while.
    std::function<void(bool on)> wait;
  };
  /// `prefixes`: "[RANK] " before each line. `inside_line`: the last byte that was put does not end a line.
  /// Lifetime: `inside_line` lives longer.
  LineMerger(bool prefixes, bool& inside_line, Events events)
      : prefixes_(prefixes), inside_line_(inside_line), events_(std::move(events)) {}

  void take(Source source, std::string_view bytes);
  /// Nothing more comes from this source. What it left without a newline goes out without one: at once where there are
  /// prefixes; without them at the end, because the line of another source would follow it on the same line.
  void finish(Source source);
  /// All ranks have ended: everything that is kept goes out.
  void finish_all();
  /// From now on no source is held.
  void hold_no_more();
  /// Cuts the line for which others wait, if it hardly grows.
  void review();

 private:
  struct Kept {
    std::string lines;    ///< whole ones, which wait for this source's turn
    std::string partial;  ///< the beginning of the next line
    bool ended = false;
    bool held = false;
  };

  std::string_view put_rest_of_line(std::string_view bytes);
  void await_turn(Source source, Kept& kept);
  bool is_due(const Kept& kept) const noexcept;
  void put_what_is_due(Source source, Kept& kept);
  void begin_line(Source source, std::string& out);
  void put(std::string_view bytes);
  void hold(Source source, Kept& kept, bool on);
  /// The turn of `last` is over: all others have theirs, until one of them begins a long line.
  void pass_turn(Source last);

  bool prefixes_;
  bool& inside_line_;
  Events events_;
  std::map<Source, Kept> sources_;
  std::optional<Source> turn_;    ///< a long line of this source is being printed
  std::uint64_t line_bytes_ = 0;  ///< of that line
  std::uint64_t grown_ = 0;       ///< of these, since the last review
  std::size_t meanwhile_ = 0;     ///< bytes that other sources have printed since that line began
  bool someone_waits_ = false;
  bool holds_ = true;
  bool all_ended_ = false;
};

}  // namespace sinew::run
