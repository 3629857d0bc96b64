#pragma once

#include <string>
#include <vector>

#include "svg.hpp"

namespace sinew::draw {

/// A box with lines of text, and boxes inside: side by side in rows that are at most so wide.
struct Part {
  std::string classes = "part";
  std::string heading;
  std::vector<std::string> lines{};
  std::string tooltip{};
  std::vector<Part> inside{};
  double row_width = 600;
};

/// A part with nothing to read is a square of this side.
inline constexpr double kSquare = 11;

/// A drawing of one part and all inside it.
std::string draw_parts(const Part& outermost, std::string_view title);

}  // namespace sinew::draw
