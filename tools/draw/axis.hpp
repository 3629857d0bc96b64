#pragma once

#include <vector>

namespace sinew::draw {

/// Values along a line of the drawing, from `from` to `to`.
struct Axis {
  double least = 0;
  double most = 1;
  double from = 0;
  double to = 1;
  bool logarithmic = false;  ///< both ends above 0

  double at(double value) const;
  /// Round values within, in order: of a logarithmic axis powers of ten, with 2 and 5 times them where these are few.
  std::vector<double> ticks(int about) const;
};

/// An axis whose ends are the powers of ten around values. Shape: all above 0.
Axis decades_around(double least, double most, double from, double to);

}  // namespace sinew::draw
