#include "line_printer.hpp"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace sinew::run {

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

void LinePrinter::lose(Stream stream, int error_number) {
  if (std::exchange(lost_, true) || stream == Stream::Errors) return;
  const std::string line =
      fmt::format("sinew-run: standard output: {}; what the ranks print is lost\n", std::strerror(error_number));
  [[maybe_unused]] const auto written = ::write(2, line.data(), line.size());
}

void LinePrinter::write(Stream stream, std::string_view text) {
  const int descriptor = static_cast<int>(stream);
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {
      pollfd wait{descriptor, POLLOUT, 0};
      ::poll(&wait, 1, -1);
    } else if (errno != EINTR) {
      closed_ = closed_ || errno == EPIPE;
      if (errno != EPIPE) lose(stream, errno);
      return;
    }
  }
}

}  // namespace sinew::run
