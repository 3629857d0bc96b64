#include "line.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <sinew/core/base/table.hpp>
#include <sinew/core/base/version.hpp>
#include <sinew/core/call/bus_factor.hpp>
#include <sinew/core/call/determinism.hpp>
#include <sinew/tools/common/network_options.hpp>
#include <sinew/topology/format/json/json_text.hpp>

namespace sinew::tools {
namespace {

constexpr double kMicro = 1e6;
constexpr double kGiga = 1e9;

double speedup(const Line& line) {
  return line.measured.peer ? line.measured.peer->seconds / line.measured.ours.seconds : 0;
}

double bus_bandwidth(const BenchOptions& options, const RunFacts& facts, const Line& line) {
  return line.algorithm_bandwidth() * bus_factor(options.what->collective, facts.ranks);
}

/// Microseconds in eight characters at most up to ten seconds: the shorter the time, the more digits behind the point.
std::string micros(double seconds) {
  const double us = seconds * kMicro;
  return us < 10 ? fmt::format("{:.3f}", us) : us < 1000 ? fmt::format("{:.2f}", us) : fmt::format("{:.0f}", us);
}

/// The table of a run, row by row. Scripts know its columns from nccl-tests.
Table table_of(bool peer) {
  const auto figure = [](const char* name, const char* unit, std::size_t width) {
    return Column{.name = name, .below = unit, .align = Align::Right, .width = width};
  };
  std::vector<Column> columns{figure("size", "(B)", 11),      figure("count", "(elements)", 10),
                              figure("type", "", 6),          figure("redop", "", 8),
                              figure("root", "", 5),          figure("way", "", 19),
                              figure("time", "(us)", 7),      figure("p99", "(us)", 7),
                              figure("predicted", "(us)", 9), figure("algbw", "(GB/s)", 7),
                              figure("busbw", "(GB/s)", 7),   figure("#wrong", "", 6)};
  if (peer) {
    columns.push_back(figure("peer", "(us)", 7));
    columns.push_back(figure("speedup", "(x)", 7));
  }
  columns.push_back({});  // remarks
  return Table(std::move(columns), " ", "#");
}

/// Digits that mean something, so that a script's file stays readable.
double rounded(double value) {
  if (value == 0 || !std::isfinite(value)) return 0;
  const double scale = std::pow(10.0, 5 - std::floor(std::log10(std::abs(value))));
  return std::round(value * scale) / scale;
}

/// A figure that only a line with times has.
nlohmann::ordered_json timed_figure(const Line& line, double value) {
  return line.measured.timed ? nlohmann::ordered_json(rounded(value)) : nullptr;
}

nlohmann::ordered_json to_json(const LinkLoad& load) {
  nlohmann::ordered_json out = {{"links", load.links},       {"count", load.count},
                                {"used", load.counted.used}, {"bytes", load.counted.all},
                                {"busiest", load.busiest},   {"busiest_bytes", load.counted.busiest}};
  if (load.simulated) {
    out["simulated_used"] = load.simulated->used;
    out["simulated_bytes"] = load.simulated->all;
    out["simulated_busiest_bytes"] = load.simulated->busiest;
  }
  return out;
}

}  // namespace

double Line::algorithm_bandwidth() const noexcept {
  return measured.ours.seconds > 0 ? static_cast<double>(bytes) / measured.ours.seconds : 0;
}

std::string to_json(const BenchOptions& options, const RunFacts& facts, const Line& line) {
  nlohmann::ordered_json out;
  out["collective"] = std::string(options.what->name);
  out["bytes"] = line.bytes;
  out["dtype"] = std::string(name_of(options.dtype));
  out["op"] = reduces(options.what->collective) ? std::string(name_of(options.op)) : "none";
  out["ranks"] = facts.ranks;
  out["hosts"] = facts.hosts;
  out["transport"] = line.transport;
  out["algorithm"] = line.algorithm;
  out["in_place"] = options.in_place;
  out["registered"] = options.registered;
  out["determinism"] = std::string(name_of(options.determinism));
  out["codec"] = std::string(name_of(options.codec));
  out["time_us"] = timed_figure(line, line.measured.ours.seconds * kMicro);
  out["time_us_p99"] = timed_figure(line, line.measured.ours.p99_seconds * kMicro);
  out["predicted_us"] = line.predicted_s ? nlohmann::ordered_json(rounded(*line.predicted_s * kMicro)) : nullptr;
  out["algbw_GBps"] = timed_figure(line, line.algorithm_bandwidth() / kGiga);
  out["busbw_GBps"] = timed_figure(line, bus_bandwidth(options, facts, line) / kGiga);
  out["wrong"] = options.check && !options.predicts_only() ? nlohmann::ordered_json(line.measured.wrong) : nullptr;
  out["noisy"] = line.measured.noisy;
  out["version"] = std::string(version());
  if (options.records_root && has_root(options.what->collective)) out["root"] = options.root;
  if (options.warm_buffers) out["warm_buffers"] = true;
  if (options.on_device) out["device"] = true;
  if (!facts.virtual_cluster.empty()) {
    out["imagined"] = facts.virtual_cluster;
    out["assumed"] = facts.assumed;
    describe_form(facts.network, out);
    auto& links = out["links"] = nlohmann::ordered_json::array();
    for (const LinkLoad& load : line.links) links.push_back(to_json(load));
  }
  if (options.batch_s != BenchOptions{}.batch_s) out["batch_us"] = options.batch_s * kMicro;
  if (line.measured.peer) {
    out["peer"] = facts.peer;
    out["peer_time_us"] = timed_figure(line, line.measured.peer->seconds * kMicro);
    out["speedup"] = timed_figure(line, speedup(line));
  }
  return json_text(out);
}

std::string table_header(const BenchOptions& options, const RunFacts& facts) {
  std::string text =
      fmt::format("# {} on {} rank{}, {} host{}, {}{}\n", options.what->name, facts.ranks, facts.ranks == 1 ? "" : "s",
                  facts.hosts, facts.hosts == 1 ? "" : "s", options.in_place ? "in place" : "out of place",
                  options.on_device ? (options.registered ? ", registered device memory" : ", device memory")
                                    : (options.registered ? ", registered memory" : ""));
  if (!facts.virtual_cluster.empty()) {
    text +=
        fmt::format("# virtual cluster: {}, {}; {}\n", facts.virtual_cluster, form_text(facts.network),
                    options.predicts_only()
                        ? "its GPUs are not here: nothing is run, predictions are the cluster's"
                        : fmt::format("times are those of {} threads here, predictions the cluster's", facts.ranks));
    for (const std::string& what : facts.assumed) text += fmt::format("# assumed: {}\n", what);
  }
  if (options.determinism != Determinism::Fast)
    text += fmt::format("# determinism: {}\n", name_of(options.determinism));
  if (options.codec != Codec::None) {
    text += fmt::format("# messages in {}; #wrong: further from the exact result than its stated error\n",
                        name_of(options.codec));
  }
  if (options.predicts_only()) {
    text += "# predicted: per call, of many in a row\n";
  } else if (options.iterations == 0) {
    text += "# -n 0: nothing is timed; of each size one call is made\n";
  } else {
    text += options.warm_buffers
                ? "# warm buffers: the same ones over and over; small sizes never leave a cache\n"
                : "# time: per call on the slowest rank, median of batches on buffers that were rewritten before\n";
  }
  if (!facts.costs.empty()) text += fmt::format("# costs: {}\n", facts.costs);
  if (!facts.peer.empty()) text += fmt::format("# peer: {}, taking turns on the same buffers\n", facts.peer);
  return text + table_of(!facts.peer.empty()).heading();
}

std::string table_row(const BenchOptions& options, const RunFacts& facts, const Line& line) {
  const Measurement& m = line.measured;
  const Collective what = options.what->collective;
  const auto time = [&m](double seconds) { return m.timed ? micros(seconds) : "N/A"; };
  const auto figure = [&m](double value) { return m.timed ? fmt::format("{:.2f}", value) : "N/A"; };
  std::vector<std::string> cells{std::to_string(line.bytes),
                                 std::to_string(line.count),
                                 std::string(name_of(options.dtype)),
                                 reduces(what) ? std::string(name_of(options.op)) : "none",
                                 std::to_string(has_root(what) ? options.root : -1),
                                 line.algorithm + "@" + line.transport,
                                 time(m.ours.seconds),
                                 time(m.ours.p99_seconds),
                                 line.predicted_s ? micros(*line.predicted_s) : "-",
                                 figure(line.algorithm_bandwidth() / kGiga),
                                 figure(bus_bandwidth(options, facts, line) / kGiga),
                                 options.check && !options.predicts_only() ? std::to_string(m.wrong) : "N/A"};
  if (m.peer) {
    cells.push_back(time(m.peer->seconds));
    cells.push_back(figure(speedup(line)));
  }
  cells.emplace_back(m.noisy ? "noisy" : "");
  std::string text = table_of(m.peer.has_value()).row(cells);
  for (const LinkLoad& load : line.links) text += to_text(load);
  return text;
}

void Totals::add(const BenchOptions& options, const RunFacts& facts, const Line& line) {
  wrong += line.measured.wrong;
  peer_wrong += line.measured.peer_wrong;
  noisy += line.measured.noisy ? 1 : 0;
  differing += std::ranges::any_of(line.links, &LinkLoad::differs) ? 1 : 0;
  ++lines;
  if (!line.measured.timed) return;
  ++timed_lines;
  bus_bandwidth_sum += bus_bandwidth(options, facts, line);
  if (line.measured.peer) speedup_log_sum += std::log(speedup(line));
}

std::string table_footer(const RunFacts& facts, const Totals& totals) {
  const auto lines = static_cast<double>(totals.timed_lines);
  std::string text = fmt::format("# Out of bounds values : {} {}\n", totals.wrong, totals.wrong == 0 ? "OK" : "FAILED");
  text += lines > 0 ? fmt::format("# Avg bus bandwidth    : {:.4g} GB/s\n", totals.bus_bandwidth_sum / kGiga / lines)
                    : "# Avg bus bandwidth    : N/A\n";
  if (!facts.peer.empty()) {
    if (lines > 0) {
      text += fmt::format("# Geometric mean speedup over the peer: {:.3f}\n", std::exp(totals.speedup_log_sum / lines));
    }
    if (totals.peer_wrong != 0) text += fmt::format("# The peer's results: {} elements wrong\n", totals.peer_wrong);
  }
  if (totals.differing != 0) {
    text +=
        fmt::format("# {} of {} lines: links carried something else than simulated\n", totals.differing, totals.lines);
  }
  if (totals.noisy != 0) {
    text += fmt::format(
        "# noisy: {} of {} lines; other processes took the cores (--help says from when on that counts), repeat them\n",
        totals.noisy, totals.lines);
  }
  return text;
}

}  // namespace sinew::tools
