#include "amounts.hpp"

#include <cstddef>
#include <span>

#include <fmt/format.h>

namespace sinew::doctor {
namespace {

/// In the first unit in which it is below `step`.
std::string scaled(double value, double step, std::span<const char* const> units) {
  std::size_t unit = 0;
  while (value >= step && unit + 1 < units.size()) {
    value /= step;
    ++unit;
  }
  return value < 100 ? fmt::format("{:.3g} {}", value, units[unit]) : fmt::format("{:.0f} {}", value, units[unit]);
}

}  // namespace

std::string bytes_text(double bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  return scaled(bytes, 1024, kUnits);
}

std::string rate_text(double bytes_per_s) {
  constexpr const char* kUnits[] = {"B/s", "kB/s", "MB/s", "GB/s"};
  return scaled(bytes_per_s, 1000, kUnits);
}

std::string time_text(double seconds) {
  constexpr const char* kUnits[] = {"us", "ms", "s"};
  return scaled(seconds * 1e6, 1000, kUnits);
}

}  // namespace sinew::doctor
