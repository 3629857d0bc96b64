#include "line_printer.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace sinew::run {
namespace {

constexpr std::string_view kNobodyReads = "nobody reads it";

}  // namespace

LinePrinter::LinePrinter(EventLoop& loop, bool prefixes, Hold hold)
    : prefixes_(prefixes),
      hold_(std::move(hold)),
      output_(loop, static_cast<int>(Stream::Output), events_of(Stream::Output)),
      errors_(loop, static_cast<int>(Stream::Errors), events_of(Stream::Errors)) {}

Outlet::Events LinePrinter::events_of(Stream stream) {
  return {.full =
              [this, stream](bool full) {
                if (holds_) hold_(stream, full);
              },
          .refused =
              [this, stream](int error_number) {
                closed_ = closed_ || error_number == EPIPE;
                if (error_number != EPIPE) lose(stream, std::strerror(error_number));
              }};
}

std::string LinePrinter::prefix_of(int rank) const { return prefixes_ ? fmt::format("[{}] ", rank) : std::string(); }

void LinePrinter::take(int rank, Stream stream, std::string_view bytes) {
  std::string& partial = partial_[{rank, stream}];
  const std::string prefix = prefix_of(rank);
  std::string out;
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const bool whole = end != std::string_view::npos;
    partial += bytes.substr(0, end);
    bytes = whole ? bytes.substr(end + 1) : std::string_view();
    if (!whole && partial.size() < kLongestLine) break;
    out += prefix;
    out += partial;
    out += '\n';
    partial.clear();
  }
  write(stream, out);
}

void LinePrinter::finish(int rank) {
  for (const Stream stream : {Stream::Output, Stream::Errors}) {
    const auto it = partial_.find({rank, stream});
    if (it == partial_.end()) continue;
    if (!it->second.empty()) write(stream, prefix_of(rank) + it->second + "\n");
    partial_.erase(it);
  }
}

void LinePrinter::say(std::string_view line) { errors_.put(line); }

void LinePrinter::hold_no_more() {
  if (!std::exchange(holds_, false)) return;
  for (const Stream stream : {Stream::Output, Stream::Errors}) {
    if (outlet(stream).full()) hold_(stream, false);
  }
}

Duration LinePrinter::stuck() const noexcept {
  Clock::time_point moved = Clock::time_point::min();
  if (output_.waiting() != 0) moved = output_.moved();
  if (errors_.waiting() != 0) moved = std::max(moved, errors_.moved());
  return busy() ? Clock::now() - moved : Duration::zero();
}

void LinePrinter::forget() {
  for (const Stream stream : {Stream::Errors, Stream::Output}) {  // what is said of the output is an error
    if (outlet(stream).waiting() == 0) continue;
    outlet(stream).drop();
    lose(stream, kNobodyReads);
  }
}

void LinePrinter::lose(Stream stream, std::string_view why) {
  if (std::exchange(lost_, true) || stream == Stream::Errors) return;
  say(fmt::format("sinew-run: standard output: {}; what the ranks print is lost\n", why));
}

void LinePrinter::write(Stream stream, std::string_view text) {
  if (!holds_ && outlet(stream).waiting() + text.size() > kMostKept) return lose(stream, kNobodyReads);
  outlet(stream).put(text);
}

}  // namespace sinew::run
