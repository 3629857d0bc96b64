#pragma once

#include <string>
#include <vector>

namespace sinew::draw {

/// One curve over two linear axes. y begins at 0. A point whose y is not a number is left out.
struct Curve {
  struct Point {
    double x = 0, y = 0;
  };
  std::string title{};
  std::string x_name{}, y_name{};
  std::string name{};           ///< of the curve, as its tooltip shows it
  std::vector<Point> points{};  ///< x ascends; at least one point
};

/// The drawing as a file (SVG).
std::string draw_curve(const Curve& curve);

}  // namespace sinew::draw
