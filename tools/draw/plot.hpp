#pragma once

#include <string>
#include <vector>

namespace sinew::draw {

struct PlotPoint {
  double x = 0;
  double y = 0;
  std::string tooltip;
};

/// One curve; one whose points have gaps between them is drawn through all the same.
struct Series {
  std::string name;   ///< in the legend
  std::string label;  ///< beside the curve's end
  std::vector<PlotPoint> points;
};

/// Which series holds from one point on: a strip of colours below the curves.
struct Holder {
  double x = 0;
  std::size_t series = 0;
};

/// Curves over two logarithmic axes. Shape: values above 0; series without points are left out, but keep their colour.
struct Plot {
  std::string title;
  std::vector<std::string> lines;  ///< below the title
  std::string x_name;
  std::string y_name;
  std::vector<double> x_ticks;  ///< also what the axis spans, in order
  std::vector<Series> series;
  std::string strip_name;
  std::vector<Holder> strip;  ///< in order of x; one for each tick at most
};

/// y is in seconds, and shown in units that suit.
/// Errors: std::invalid_argument if there is no tick or no point at all.
std::string draw_plot(const Plot& plot);

}  // namespace sinew::draw
