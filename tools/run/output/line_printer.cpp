#include "line_printer.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace sinew::run {
namespace {

constexpr std::string_view kNobodyReads = "nobody reads it";

/// Between two looks at a line for which other ranks wait.
constexpr Duration kReviewEvery = std::chrono::seconds(5);

bool output_and_errors_are_one() {
  struct stat output {};
  struct stat errors {};
  return ::fstat(STDOUT_FILENO, &output) == 0 && ::fstat(STDERR_FILENO, &errors) == 0 &&
         output.st_dev == errors.st_dev && output.st_ino == errors.st_ino;
}

}  // namespace

LinePrinter::Place::Place(LinePrinter& printer, EventLoop& loop, Stream to, bool& inside_line)
    : stream(to),
      outlet(loop, static_cast<int>(to), printer.outlet_events(to)),
      lines(printer.prefixes_, inside_line, printer.merger_events(*this)),
      review(loop) {}

LinePrinter::LinePrinter(EventLoop& loop, bool prefixes, InsideLine& inside_line, Hold hold)
    : prefixes_(prefixes),
      hold_(std::move(hold)),
      output_(std::make_unique<Place>(*this, loop, Stream::Output, inside_line.output)) {
  if (output_and_errors_are_one()) return;
  errors_ = std::make_unique<Place>(*this, loop, Stream::Errors, inside_line.errors);
}

LinePrinter::~LinePrinter() = default;

Outlet::Events LinePrinter::outlet_events(Stream stream) {
  return {.full =
              [this, stream](bool full) {
                if (!holds_) return;
                hold_.all(stream, full);
                if (!errors_) hold_.all(Stream::Errors, full);
              },
          .refused =
              [this, stream](int error_number) {
                closed_ = closed_ || error_number == EPIPE;
                if (error_number != EPIPE) lose(stream, std::strerror(error_number));
              }};
}

LineMerger::Events LinePrinter::merger_events(Place& place) {
  return {.put = [this, &place](std::string_view bytes) { write(place, bytes); },
          .hold = [this](Source source, bool on) { hold_.one(source, on); },
          .wait = [this, &place](bool on) { await_review(place, on); }};
}

/// A line cannot grow while its reader is slow: that is no reason to cut it.
void LinePrinter::await_review(Place& place, bool on) {
  if (!on) return place.review.stop();
  place.review.start(kReviewEvery, [this, &place] {
    if (place.outlet.waiting() == 0) return place.lines.review();
    await_review(place, true);
  });
}

void LinePrinter::take(Source source, std::string_view bytes) { place_of(source.second).lines.take(source, bytes); }

void LinePrinter::finish(int rank) {
  for (const Stream stream : {Stream::Output, Stream::Errors}) place_of(stream).lines.finish({rank, stream});
}

void LinePrinter::finish_all() {
  output_->lines.finish_all();
  if (errors_) errors_->lines.finish_all();
}

void LinePrinter::say(std::string_view line) { take({kOwnLines, Stream::Errors}, line); }

void LinePrinter::hold_no_more() {
  if (!std::exchange(holds_, false)) return;
  for (const Stream stream : {Stream::Output, Stream::Errors}) {
    if (place_of(stream).outlet.full()) hold_.all(stream, false);
  }
  output_->lines.hold_no_more();
  if (errors_) errors_->lines.hold_no_more();
}

bool LinePrinter::busy() const noexcept {
  return output_->outlet.waiting() != 0 || (errors_ && errors_->outlet.waiting() != 0);
}

Duration LinePrinter::stuck() const noexcept {
  Clock::time_point moved = Clock::time_point::min();
  for (const auto* place : {output_.get(), errors_.get()}) {
    if (place != nullptr && place->outlet.waiting() != 0) moved = std::max(moved, place->outlet.moved());
  }
  return busy() ? Clock::now() - moved : Duration::zero();
}

void LinePrinter::forget() {
  for (auto* place : {errors_.get(), output_.get()}) {  // what is said of the output is an error
    if (place == nullptr || place->outlet.waiting() == 0) continue;
    place->outlet.drop();
    lose(place->stream, kNobodyReads);
  }
}

void LinePrinter::lose(Stream stream, std::string_view why) {
  if (std::exchange(lost_, true) || stream == Stream::Errors) return;
  say(fmt::format("sinew-run: standard output: {}; what the ranks print is lost\n", why));
}

void LinePrinter::write(Place& place, std::string_view text) {
  if (!holds_ && place.outlet.waiting() + text.size() > kMostKept) return lose(place.stream, kNobodyReads);
  place.outlet.put(text);
}

}  // namespace sinew::run
