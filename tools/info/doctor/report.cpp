#include "report.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <sinew/core/base/table.hpp>
#include <sinew/core/base/version.hpp>
#include <sinew/topology/format/json/json_text.hpp>
#include <sinew/topology/format/text/part_text.hpp>

namespace sinew::doctor {
namespace {

using Json = nlohmann::ordered_json;

std::ptrdiff_t count(const Diagnosis& d, Severity severity) {
  return std::ranges::count(d.findings, severity, &Finding::severity);
}

/// null: it is not known.
template <class T>
Json known(bool is_known, T value) {
  return is_known ? Json(value) : Json();
}

Json json_of(const Finding& f) {
  return {{"severity", std::string(name_of(f.severity))},
          {"what", f.what},
          {"found", f.found},
          {"cure", f.cure},
          {"hosts", f.hosts}};
}

Json json_of(const LinkResult& r, const std::vector<std::string>& hosts) {
  return {{"from", hosts[static_cast<std::size_t>(r.from_host)]},
          {"to", hosts[static_cast<std::size_t>(r.to_host)]},
          {"from_interface", r.link.from.interface},
          {"to_interface", r.link.to.interface},
          {"from_address", r.link.from.ip()},
          {"to_address", r.link.to.ip()},
          {"routed", r.link.routed},
          {"mtu_bytes", known(r.link.from.mtu_bytes != 0, r.link.from.mtu_bytes)},
          {"state", std::string(name_of(r.state))},
          {"why", r.why},
          {"tries", r.tries},
          {"round_trip_us", known(r.state != LinkState::Unreachable, r.round_trip_s * 1e6)},
          {"bytes_per_s", known(r.state == LinkState::Carries, r.bytes_per_s)},
          {"passing_bytes", known(r.state == LinkState::SmallOnly, r.passing_bytes)}};
}

}  // namespace

std::string to_text(const Diagnosis& d) {
  std::string text = fmt::format("sinew {}: {} on {}\n", version(), counted(static_cast<std::size_t>(d.ranks), "rank"),
                                 d.hosts.empty() ? "hosts that differ" : fmt::format("{}", fmt::join(d.hosts, ", ")));
  Table findings({Column{.width = 5}, {}});
  std::set<std::string> fine;
  for (const Finding& f : d.findings) {
    if (f.severity == Severity::Fine && !fine.insert(f.what).second) continue;
    const std::string where = f.hosts.empty() ? "" : fmt::format(" [{}]", fmt::join(f.hosts, ", "));
    findings.add({std::string(name_of(f.severity)), fmt::format("{}: {}{}", f.what, f.found, where)});
    if (!f.cure.empty()) findings.add({"", fmt::format("cure: {}", f.cure)});
  }
  return text + findings.text() +
         fmt::format("{}: {} would fail a job, {} would slow it, {} are fine\n",
                     would_fail(d.findings) ? "fails" : "ok", count(d, Severity::Fails), count(d, Severity::Warns),
                     count(d, Severity::Fine));
}

std::string to_json(const Diagnosis& d) {
  Json out = {
      {"ok", !would_fail(d.findings)}, {"version", std::string(version())}, {"ranks", d.ranks}, {"hosts", d.hosts}};
  out["first_ranks"] = d.first_ranks;
  out["findings"] = Json::array();
  for (const Finding& f : d.findings) out["findings"].push_back(json_of(f));
  out["links"] = Json::array();
  for (const LinkResult& r : d.links) out["links"].push_back(json_of(r, d.hosts));
  return json_text(out, 2);
}

}  // namespace sinew::doctor
