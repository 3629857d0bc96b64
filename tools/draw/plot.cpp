#include "plot.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <ranges>
#include <stdexcept>

#include <fmt/format.h>

#include <sinew/tools/common/time_text.hpp>

#include "axis.hpp"
#include "style.hpp"
#include "svg.hpp"

namespace sinew::draw {
namespace {

constexpr double kWidth = 980, kLeft = 76, kRight = 230, kHeight = 420;
constexpr double kPlotLine = 16;
constexpr double kTitle = 16, kTitleLine = 20;  // height of its letters, and of a line
constexpr double kStrip = 12;

class PlotDrawing {
 public:
  explicit PlotDrawing(const Plot& plot)
      : plot_(plot),
        title_(wrapped(plot.title, kWidth - kLeft - 8, kTitle)),
        top_(20 + kTitleLine * static_cast<double>(title_.size()) + kPlotLine * static_cast<double>(plot.lines.size())),
        x_{plot.x_ticks.front(), plot.x_ticks.back(), kLeft, kWidth - kRight, true},
        y_(vertical()),
        svg_(kWidth, legend_top() + kPlotLine * static_cast<double>(plot.series.size()) + 8, plot.title) {}

  std::string draw() {
    double y = 4;
    for (const std::string& line : title_) svg_.text({kLeft, y += kTitleLine}, line, "ink head");
    y += 4;
    for (const std::string& line : plot_.lines) svg_.text({kLeft, y += kPlotLine}, line, "faint");
    draw_axes();
    draw_strip();
    for (std::size_t s = 0; s < plot_.series.size(); ++s) draw_series(s);
    label_ends();
    draw_legend();
    return svg_.text_of_file();
  }

 private:
  double bottom() const { return top_ + kHeight; }
  double strip_top() const { return bottom() + 40; }
  double legend_top() const { return strip_top() + kStrip + 28; }

  Axis vertical() const {
    double least = std::numeric_limits<double>::infinity(), most = 0;
    for (const Series& s : plot_.series) {
      for (const PlotPoint& p : s.points) {
        least = std::min(least, p.y);
        most = std::max(most, p.y);
      }
    }
    if (most <= 0) throw std::invalid_argument(fmt::format("{}: a plot without a point", plot_.title));
    return decades_around(least, most, bottom(), top_);
  }

  Point at(const PlotPoint& p) const { return {x_.at(p.x), y_.at(p.y)}; }

  void draw_axes() {
    for (const double v : y_.ticks(6)) {
      svg_.line({x_.from, y_.at(v)}, {x_.to, y_.at(v)}, "grid");
      svg_.text({x_.from - 6, y_.at(v) + 4}, tools::time_text(v), "ink", Anchor::End);
    }
    double free_from = 0;
    for (const double v : plot_.x_ticks) {
      svg_.line({x_.at(v), top_}, {x_.at(v), bottom() + 4}, "grid");
      const std::string name = fmt::format("{:.0f}", v);
      const double half = text_width(name, 10) / 2;
      if (x_.at(v) - half < free_from) continue;
      svg_.text({x_.at(v), bottom() + 16}, name, "ink small", Anchor::Middle);
      free_from = x_.at(v) + half + 4;
    }
    svg_.line({x_.from, bottom()}, {x_.to, bottom()}, "axis");
    svg_.line({x_.from, top_}, {x_.from, bottom()}, "axis");
    svg_.text({x_.to + 20, bottom() + 16}, plot_.x_name, "faint");
    svg_.text({x_.from - 6, top_ - 8}, plot_.y_name, "faint", Anchor::End);
  }

  /// Each holder from half way after the one before to half way to the next.
  void draw_strip() {
    if (plot_.strip.empty()) return;
    svg_.text({x_.to + 20, strip_top() + 10}, plot_.strip_name, "faint");
    for (std::size_t i = 0; i < plot_.strip.size(); ++i) {
      const double here = x_.at(plot_.strip[i].x);
      const double from = i == 0 ? x_.from : (x_.at(plot_.strip[i - 1].x) + here) / 2;
      const double to = i + 1 == plot_.strip.size() ? x_.to : (x_.at(plot_.strip[i + 1].x) + here) / 2;
      const std::size_t s = plot_.strip[i].series;
      svg_.box({from, strip_top(), to - from, kStrip}, "strip " + series_class(s),
               fmt::format("{:.0f} {}: {}", plot_.strip[i].x, plot_.x_name, plot_.series[s].name));
    }
  }

  void draw_series(std::size_t s) {
    const Series& series = plot_.series[s];
    std::vector<Point> points;
    for (const PlotPoint& p : series.points) points.push_back(at(p));
    if (points.size() > 1) svg_.path(points, series_class(s) + " curve", series.name);
    for (const PlotPoint& p : series.points) svg_.dot(at(p), 3, series_class(s), p.tooltip);
  }

  /// Names in a column on the right, as far from each other as letters need, each with a line to its curve's end.
  void label_ends() {
    struct Label {
      std::size_t series;
      Point end;
      double y;
    };
    std::vector<Label> labels;
    for (std::size_t s = 0; s < plot_.series.size(); ++s) {
      if (plot_.series[s].points.empty()) continue;
      const Point end = at(plot_.series[s].points.back());
      labels.push_back({s, end, end.y});
    }
    std::ranges::stable_sort(labels, {}, &Label::y);
    double free_from = top_;
    for (Label& label : labels) {
      label.y = std::max(label.y, free_from);
      free_from = label.y + kPlotLine - 2;
    }
    double free_to = bottom();
    for (Label& label : labels | std::views::reverse) {
      label.y = std::min(label.y, free_to);
      free_to = label.y - (kPlotLine - 2);
    }
    for (const Label& label : labels) {
      svg_.line(label.end, {x_.to + 16, label.y}, series_class(label.series) + " thin");
      svg_.text({x_.to + 20, label.y + 4}, plot_.series[label.series].label, series_class(label.series));
    }
  }

  void draw_legend() {
    double y = legend_top();
    for (std::size_t s = 0; s < plot_.series.size(); ++s, y += kPlotLine) {
      svg_.line({kLeft, y}, {kLeft + 30, y}, series_class(s) + " curve");
      svg_.text({kLeft + 38, y + 4}, plot_.series[s].name);
    }
  }

  const Plot& plot_;
  std::vector<std::string> title_;
  double top_;
  Axis x_;
  Axis y_;
  Svg svg_;
};

}  // namespace

std::string draw_plot(const Plot& plot) {
  if (plot.x_ticks.empty()) throw std::invalid_argument(fmt::format("{}: a plot without a tick", plot.title));
  return PlotDrawing(plot).draw();
}

}  // namespace sinew::draw
