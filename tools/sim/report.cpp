#include "report.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <sinew/core/config.hpp>
#include <sinew/topology/format/json/json_text.hpp>

#include "../network_options.hpp"

namespace sinew::tools {
namespace {

constexpr double kGiga = 1e9;

nlohmann::ordered_json loads_of(const Forecast& f, const Network& n) {
  auto loads = nlohmann::ordered_json::array();
  for (const Forecast::Load& load : f.loads) {
    loads.push_back({{"links", name_of(load.tier)},
                     {"count", load.links},
                     {"used", load.used},
                     {"bytes", load.bytes},
                     {"busiest", n.describe(load.busiest)},
                     {"busiest_bytes", load.busiest_bytes},
                     {"utilisation", load.utilisation}});
  }
  return loads;
}

}  // namespace

std::string call_text(const SimulatedCall& call) {
  return fmt::format("{} of {}", name_of(call.desc.collective), format_bytes(call.bytes));
}

std::string heading(const SimulatedCall& call, const Network& n) {
  return fmt::format("{} on {}: {} ranks, {}", call_text(call), n.name, n.ranks(), form_text(n));
}

std::string as_table(const SimulatedCall& call, const VirtualCluster& on, const std::vector<SimulatedWay>& ways) {
  const Network& network = on.network;
  std::string text = heading(call, network) + "\n";
  for (const std::string& what : on.assumed) text += fmt::format("  assumed: {}\n", what);
  text += fmt::format("  {:<58} {:>12} {:>9} {:>9}  {}\n", "", "time", "algbw", "busbw", "busiest link");
  text += fmt::format("  {:<58} {:>12} {:>9} {:>9}\n", "", "(us)", "(GB/s)", "(GB/s)");
  std::string accounts;
  for (const SimulatedWay& w : ways) {
    if (!w.rejected.empty()) {
      text += fmt::format("  {:<58} {:>12}  {}\n", full_name(w), "-", w.rejected);
      continue;
    }
    const Forecast& f = w.forecast;
    text += fmt::format("  {:<58} {:>12.2f} {:>9.2f} {:>9.2f}", full_name(w), f.seconds * kMicrosecondsPerSecond,
                        f.algbw_bytes_per_s / kGiga, f.busbw_bytes_per_s / kGiga);
    if (!f.loads.empty() && f.loads.front().busiest_bytes > 0) {
      const Forecast::Load& most = f.loads.front();
      text += fmt::format("  {}: {:.0f} bytes, {:.1f} % ({} of {} used)", network.describe(most.busiest),
                          most.busiest_bytes, 100 * most.utilisation, most.used, most.links);
    }
    text += '\n';
    accounts += fmt::format("  {}: {}{}\n", full_name(w), f.exact ? "" : "approximation: ", f.account);
  }
  return text + "How:\n" + accounts;
}

std::string as_json(const SimulatedCall& call, const VirtualCluster& on, const std::vector<SimulatedWay>& ways) {
  const Network& network = on.network;
  nlohmann::ordered_json out;
  out["collective"] = name_of(call.desc.collective);
  out["bytes"] = call.bytes;
  out["dtype"] = name_of(call.desc.dtype);
  out["cluster"] = network.name;
  describe_form(network, out);
  out["hosts"] = network.hosts;
  out["ranks"] = network.ranks();
  out["assumed"] = on.assumed;
  auto& list = out["algorithms"] = nlohmann::ordered_json::array();
  for (const SimulatedWay& w : ways) {
    nlohmann::ordered_json row{{"algorithm", w.algorithm}};
    if (!w.way.empty()) row["way"] = w.way;
    if (!w.rejected.empty()) {
      row["rejected"] = w.rejected;
    } else {
      const Forecast& f = w.forecast;
      row["time_us"] = f.seconds * kMicrosecondsPerSecond;
      row["algbw_GBps"] = f.algbw_bytes_per_s / kGiga;
      row["busbw_GBps"] = f.busbw_bytes_per_s / kGiga;
      row["loads"] = loads_of(f, network);
      row["exact"] = f.exact;
      row["simulated_ranks"] = f.simulated_ranks;
      row["segments"] = f.segments;
      row["simulated_segments"] = f.simulated_segments;
      row["scratch_bytes"] = f.scratch_bytes;
      row["account"] = f.account;
    }
    list.push_back(std::move(row));
  }
  return json_text(out);
}

}  // namespace sinew::tools
