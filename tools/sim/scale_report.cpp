#include "scale_report.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <sinew/core/base/table.hpp>
#include <sinew/core/error.hpp>
#include <sinew/tools/common/network_options.hpp>
#include <sinew/tools/draw/axis.hpp>
#include <sinew/tools/draw/plot.hpp>
#include <sinew/topology/format/json/json_text.hpp>

namespace sinew::tools {
namespace {

std::string title_of(const Scale& scale) {
  return fmt::format("{} on hosts of {}, {} to {} ranks, {}", call_text(scale.call), scale.host,
                     scale.points.front().ranks, scale.points.back().ranks, form_text(scale.network));
}

/// "12.34 ", or "~12.34 " if the time is an approximation. A star replaces the space for the fastest candidate.
std::string cell(const ScalePoint& point, const std::string& name) {
  const SimulatedWay* way = point.simulated(name);
  if (way == nullptr) return "- ";
  return fmt::format("{}{:.2f}{}", way->forecast.exact ? "" : "~", way->forecast.seconds * kMicrosecondsPerSecond,
                     point.fastest() == way ? "*" : " ");
}

std::string lines_text(std::string_view heading, const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += fmt::format("{}  {}\n", text.empty() ? heading : "", line);
  return text;
}

}  // namespace

std::string as_table(const Scale& scale) {
  const std::vector<std::string> names = scale.names();
  std::string text = title_of(scale) + "\nTime in us; * the fastest, ~ an approximation:\n";
  for (std::size_t i = 0; i < names.size(); ++i) text += fmt::format("  [{}] {}\n", i + 1, names[i]);
  std::vector<Column> columns{{.name = "ranks", .align = Align::Right, .width = 8}};
  for (std::size_t i = 0; i < names.size(); ++i)
    columns.push_back({.name = fmt::format("[{}] ", i + 1), .align = Align::Right});
  Table times(std::move(columns));
  for (const ScalePoint& point : scale.points) {
    std::vector<std::string> cells{std::to_string(point.ranks)};
    for (const std::string& name : names) cells.push_back(cell(point, name));
    times.add(std::move(cells));
  }
  return text + times.text() + lines_text("The fastest:\n", scale.winners()) +
         lines_text("Not simulated:\n", scale.gaps());
}

std::string as_json(const Scale& scale) {
  nlohmann::ordered_json out;
  out["collective"] = name_of(scale.call.desc.collective);
  out["bytes"] = scale.call.bytes;
  out["dtype"] = name_of(scale.call.desc.dtype);
  out["host"] = scale.host;
  describe_form(scale.network, out);
  auto& points = out["points"] = nlohmann::ordered_json::array();
  for (const ScalePoint& point : scale.points) {
    nlohmann::ordered_json row{{"hosts", point.hosts}, {"ranks", point.ranks}};
    if (!point.rejected.empty()) row["rejected"] = point.rejected;
    if (const SimulatedWay* fastest = point.fastest()) row["fastest"] = full_name(*fastest);
    auto& ways = row["algorithms"] = nlohmann::ordered_json::array();
    for (const SimulatedWay& w : point.ways) {
      nlohmann::ordered_json way{{"algorithm", w.algorithm}};
      if (!w.way.empty()) way["way"] = w.way;
      if (w.rejected.empty()) {
        way["time_us"] = w.forecast.seconds * kMicrosecondsPerSecond;
        way["exact"] = w.forecast.exact;
      } else {
        way["rejected"] = w.rejected;
      }
      ways.push_back(std::move(way));
    }
    points.push_back(std::move(row));
  }
  return json_text(out);
}

std::string as_plot(const Scale& scale) {
  const std::vector<std::string> names = scale.names();
  if (names.empty()) {
    const std::vector<std::string> gaps = scale.gaps();
    throw Error(Code::Unavailable,
                fmt::format("{}: nothing to plot: {}", title_of(scale), gaps.empty() ? "no algorithm" : gaps.front()));
  }
  draw::Plot plot{.title = title_of(scale), .x_name = "ranks", .y_name = "time", .strip_name = "the fastest"};
  for (const std::string& name : names) plot.series.push_back({.name = name});
  for (const ScalePoint& point : scale.points) {
    plot.x_ticks.push_back(point.ranks);
    for (draw::Series& series : plot.series) {
      const SimulatedWay* way = point.simulated(series.name);
      if (way == nullptr) continue;
      const double seconds = way->forecast.seconds;
      series.label = short_name(*way);
      if (seconds <= 0) continue;
      series.points.push_back({static_cast<double>(point.ranks), seconds,
                               fmt::format("{} ranks: {:.2f} us{}, {}", point.ranks, seconds * kMicrosecondsPerSecond,
                                           way->forecast.exact ? "" : " (approximation)", series.name)});
    }
    if (const SimulatedWay* fastest = point.fastest()) {
      const auto at = std::ranges::find(names, full_name(*fastest));
      plot.strip.push_back({static_cast<double>(point.ranks), static_cast<std::size_t>(at - names.begin())});
    }
  }
  plot.lines = scale.winners();
  return draw::draw_plot(plot);
}

}  // namespace sinew::tools
