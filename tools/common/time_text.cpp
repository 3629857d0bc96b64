#include "time_text.hpp"

#include <fmt/format.h>

namespace sinew::tools {

std::string time_text(double seconds) {
  if (seconds == 0) return "0";
  if (seconds < 1e-6) return fmt::format("{:.4g} ns", seconds * 1e9);
  if (seconds < 1e-3) return fmt::format("{:.4g} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.4g} ms", seconds * 1e3);
  return fmt::format("{:.4g} s", seconds);
}

}  // namespace sinew::tools
