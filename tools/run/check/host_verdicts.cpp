#include "host_verdicts.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <sinew/core/error.hpp>

namespace sinew::run {
namespace {

using Json = nlohmann::json;

void add(JobVerdict& verdict, const Json& finding) {
  const std::string severity = finding.at("severity");
  if (severity == "ok") return;
  const std::string what = finding.at("what");
  const bool fails = severity == "fails";
  const std::vector<std::string> hosts = finding.at("hosts");
  const std::string fault = fmt::format("{}: {}; cure: {}", what, finding.at("found").get<std::string>(),
                                        finding.at("cure").get<std::string>());
  // A World of all ranks has failed: the host of the rank that says so need not be to blame.
  if (fails && (hosts.empty() || what == "world")) {
    const std::string where = hosts.empty() ? "" : fmt::format(" (on host {})", fmt::join(hosts, ", "));
    verdict.faults.push_back(fault + where);
    return;
  }
  for (HostVerdict& h : verdict.hosts) {
    if (std::ranges::find(hosts, h.name) == hosts.end()) continue;
    std::vector<std::string>& said = fails ? h.faults : h.warnings;
    const std::string& text = fails ? fault : what;
    if (std::ranges::find(said, text) == said.end()) said.push_back(text);
  }
}

}  // namespace

JobVerdict read_verdicts(std::string_view report) {
  try {
    const Json json = Json::parse(report);
    const std::vector<std::string> names = json.at("hosts");
    const std::vector<int> first_ranks = json.at("first_ranks");
    JobVerdict verdict;
    for (std::size_t h = 0; h < names.size(); ++h) verdict.hosts.push_back({first_ranks.at(h), names[h], {}, {}});
    for (const Json& finding : json.at("findings")) add(verdict, finding);
    return verdict;
  } catch (const std::exception& e) {  // of JSON, or a list that is too short
    throw Error(Code::Mismatch, fmt::format("what sinew-info doctor --json prints is no report: {}", e.what()));
  }
}

}  // namespace sinew::run
