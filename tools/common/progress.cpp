#include "progress.hpp"

#include <unistd.h>

#include <iostream>

#include <fmt/format.h>

namespace sinew::tools {

Progress::Progress(std::size_t steps)
    : steps_(steps), terminal_(isatty(STDERR_FILENO) == 1), start_(std::chrono::steady_clock::now()) {}

Progress::~Progress() { clear(); }

void Progress::show(std::size_t step, std::string_view what) {
  if (!terminal_) return;
  clear();
  const double gone = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  std::cerr << fmt::format("{} of {}: {}, {:.0f} s gone", step + 1, steps_, what, gone) << std::flush;
  shown_ = true;
}

void Progress::clear() {
  if (shown_) std::cerr << "\r\x1b[K" << std::flush;
  shown_ = false;
}

}  // namespace sinew::tools
