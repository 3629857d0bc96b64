#include "curve.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "axis.hpp"
#include "svg.hpp"

namespace sinew::draw {
namespace {

constexpr double kCurveWidth = 760, kCurveHeight = 420, kAxisLeft = 60, kAxisRight = 20, kAxisTop = 44,
                 kAxisBottom = 44;

}  // namespace

std::string draw_curve(const Curve& curve) {
  double most = 1;
  for (const Curve::Point& p : curve.points) {
    if (std::isfinite(p.y)) most = std::max(most, p.y);
  }
  const double first = curve.points.front().x;
  const Axis x{first, std::max(curve.points.back().x, first + 1), kAxisLeft, kCurveWidth - kAxisRight};
  const Axis y{0, most, kCurveHeight - kAxisBottom, kAxisTop};
  Svg svg(kCurveWidth, kCurveHeight, curve.title);
  svg.text({kAxisLeft, 22}, curve.title, "ink head");
  for (const double v : y.ticks(6)) {
    svg.line({x.from, y.at(v)}, {x.to, y.at(v)}, "grid");
    svg.text({x.from - 6, y.at(v) + 4}, fmt::format("{:g}", v), "ink", Anchor::End);
  }
  for (const double v : x.ticks(8)) {
    svg.line({x.at(v), y.to}, {x.at(v), y.from}, "grid");
    svg.text({x.at(v), y.from + 16}, fmt::format("{:g}", v), "ink small", Anchor::Middle);
  }
  svg.line({x.from, y.from}, {x.to, y.from}, "axis");
  svg.line({x.from, y.to}, {x.from, y.from}, "axis");
  svg.text({(x.from + x.to) / 2, kCurveHeight - 8}, curve.x_name, "faint", Anchor::Middle);
  svg.text({x.from - 6, kAxisTop - 8}, curve.y_name, "faint");
  std::vector<Point> points;
  for (const Curve::Point& p : curve.points) {
    if (std::isfinite(p.y)) points.push_back({x.at(p.x), y.at(p.y)});
  }
  if (points.size() > 1) svg.path(points, "c1 curve", curve.name);
  for (const Point& at : points) svg.dot(at, 1.5, "c1");
  return svg.text_of_file();
}

}  // namespace sinew::draw
