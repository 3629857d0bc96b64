#include "loss_plot.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <sinew/tools/draw/axis.hpp>
#include <sinew/tools/draw/svg.hpp>

namespace gpt {
namespace {

using sinew::draw::Anchor;
using sinew::draw::Axis;
using sinew::draw::Point;
using sinew::draw::Svg;

constexpr double kWidth = 760, kHeight = 420, kLeft = 60, kRight = 20, kTop = 44, kBottom = 44;

}  // namespace

std::string loss_plot(const std::vector<StepReport>& reports, const std::string& title) {
  double most = 1;
  for (const StepReport& r : reports) {
    if (std::isfinite(r.loss)) most = std::max(most, r.loss);
  }
  const Axis x{static_cast<double>(reports.front().step),
               static_cast<double>(std::max(reports.back().step, reports.front().step + 1)), kLeft, kWidth - kRight};
  const Axis y{0, most, kHeight - kBottom, kTop};
  Svg svg(kWidth, kHeight, title);
  svg.text({kLeft, 22}, title, "ink head");
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
  svg.text({(x.from + x.to) / 2, kHeight - 8}, "step", "faint", Anchor::Middle);
  svg.text({x.from - 6, kTop - 8}, "nats per byte", "faint");
  std::vector<Point> points;
  for (const StepReport& r : reports) {
    if (std::isfinite(r.loss)) points.push_back({x.at(static_cast<double>(r.step)), y.at(r.loss)});
  }
  if (points.size() > 1) svg.path(points, "c1 curve", "loss");
  for (const Point& at : points) svg.dot(at, 1.5, "c1");
  return svg.text_of_file();
}

}  // namespace gpt
