#include "progress.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <iostream>

#include <fmt/format.h>

namespace sinew::tools {
namespace {

constexpr auto kBetweenLines = std::chrono::milliseconds(100);
constexpr double kFewPerSecond = 20;  // so few lines cost nothing
constexpr auto kLongAction = std::chrono::seconds(2);

std::string seconds_text(double seconds) {
  return seconds < 600 ? fmt::format("{:.0f} s", seconds) : fmt::format("{:.0f} min", seconds / 60);
}

/// A longer line would go on in the next line of the terminal, where clear() does not find it.
std::size_t longest_line() {
  winsize size{};
  const bool is_known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return is_known ? size.ws_col - 1U : 79;
}

}  // namespace

std::string time_gone_and_left(double gone_s, double share) {
  const std::string gone = seconds_text(gone_s) + " gone";
  return share > 0 ? fmt::format("{}, {} left", gone, seconds_text(gone_s * (1 / share - 1))) : gone;
}

Progress::Progress(std::size_t steps)
    : steps_(steps), terminal_(isatty(STDERR_FILENO) == 1), start_(std::chrono::steady_clock::now()) {}

Progress::~Progress() { clear(); }

bool Progress::is_due(Time now) const { return now - shown_at_ >= kBetweenLines; }

void Progress::show(std::size_t step, std::string_view what) {
  const Time now = std::chrono::steady_clock::now();
  const double gone = std::chrono::duration<double>(now - start_).count();
  const double done = static_cast<double>(step), per_s = gone > 0 ? done / gone : 0;
  if (!terminal_ || (per_s > kFewPerSecond && !is_due(now))) return;
  const std::string rate = per_s >= 1 ? fmt::format("{:.0f} per s, ", per_s) : "";
  print(fmt::format("{} of {}: {}, {}{}", step + 1, steps_, what, rate,
                    time_gone_and_left(gone, steps_ == 0 ? 0 : done / static_cast<double>(steps_))),
        now);
}

void Progress::show_share(double share, std::string_view what) {
  const Time now = std::chrono::steady_clock::now();
  if (!terminal_ || now - start_ < kLongAction || !is_due(now)) return;
  const double gone = std::chrono::duration<double>(now - start_).count();
  print(fmt::format("{:.0f} %: {}, {}", 100 * share, what, time_gone_and_left(gone, share)), now);
}

void Progress::print(const std::string& line, Time now) {
  clear();
  std::cerr << line.substr(0, longest_line()) << std::flush;
  shown_ = true;
  shown_at_ = now;
}

void Progress::clear() {
  if (shown_) std::cerr << "\r\x1b[K" << std::flush;
  shown_ = false;
}

}  // namespace sinew::tools
