#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>

#include <sinew/core/net/event_loop.hpp>

#include "line_merger.hpp"
#include "outlet.hpp"
#include "stream.hpp"

namespace sinew::run {

/// Whether the last byte at a descriptor did not end a line; kept from one start of the ranks to the next.
struct InsideLine {
  bool output = false;
  bool errors = false;
};

/// Prints what the ranks print, at this process's standard output and standard error, merged by LineMerger. Where both
/// are the same pipe, file or terminal, their lines are merged, too. It waits for nobody who reads: what has not been
/// read yet is kept.
class LinePrinter {
 public:
  static constexpr std::size_t kMostKept = 64 << 20;  ///< bytes of an outlet, once ranks are not held

  /// Asks that output stays with the ranks, or no longer.
  struct Hold {
    std::function<void(Stream stream, bool on)> all;  ///< Outlet::kFull bytes of that stream wait to be read
    std::function<void(Source source, bool on)> one;  ///< another rank is printing a long line
  };
  LinePrinter(EventLoop& loop, bool prefixes, InsideLine& inside_line, Hold hold);
  ~LinePrinter();

  void take(Source source, std::string_view bytes);
  /// The rank has ended.
  void finish(int rank);
  /// All ranks have ended.
  void finish_all();
  /// A line of sinew-run's own, on stderr.
  void say(std::string_view line);
  /// From now on no rank is held, which would keep it from ending: beyond kMostKept its output is lost.
  void hold_no_more();
  /// Some of it has not been read yet.
  bool busy() const noexcept;
  /// Nobody has taken any for so long.
  Duration stuck() const noexcept;
  /// Loses what has not been read.
  void forget();
  /// Nobody reads our output any more.
  bool closed() const noexcept { return closed_; }
  /// Some of it could not be written, for any other reason; said once, on stderr.
  bool lost() const noexcept { return lost_; }

 private:
  /// One pipe, file or terminal, and the lines that go there.
  struct Place {
    Place(LinePrinter& printer, EventLoop& loop, Stream stream, bool& inside_line);

    Stream stream;
    Outlet outlet;
    LineMerger lines;
    EventLoop::Timer review;
  };

  Outlet::Events outlet_events(Stream stream);
  LineMerger::Events merger_events(Place& place);
  void await_review(Place& place, bool on);
  Place& place_of(Stream stream) noexcept { return stream == Stream::Errors && errors_ ? *errors_ : *output_; }
  void lose(Stream stream, std::string_view why);
  void write(Place& place, std::string_view text);

  bool prefixes_;
  Hold hold_;
  bool holds_ = true;
  bool closed_ = false;
  bool lost_ = false;
  std::unique_ptr<Place> output_;
  std::unique_ptr<Place> errors_;  ///< null: it is the same pipe, file or terminal as output_
};

}  // namespace sinew::run
