#include "broken_links.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "link_faults.hpp"
#include "way_groups.hpp"

namespace sinew::doctor {
namespace {

/// Of rank 0: all others must connect to it when a job starts.
constexpr int kMeetingHost = 0;

/// Each fault of the ways that lead from the group's host, or (`out` false) to it, once; of a network, of all.
std::string faults_of(const WayGroup& group, bool out) {
  std::set<std::string> faults;
  for (const LinkResult* r : group.ways) {
    if (group.host < 0 || (r->from_host == group.host) == out) faults.insert(fault_of(*r));
  }
  return fmt::format("{}", fmt::join(faults, ", "));
}

std::string faults_of(const WayGroup& group) {
  const std::string out = faults_of(group, true);
  const std::string in = faults_of(group, false);
  if (out.empty() || in.empty() || out == in) return out.empty() ? in : out;
  return fmt::format("out of it {}; into it {}", out, in);
}

bool others_join(const WayGroup& group, const LinkTable& table) {
  return std::ranges::all_of(group.ways, [&](const LinkResult* r) { return table.joins(r->from_host, r->to_host); });
}

Finding finding_of(const WayGroup& group, const LinkTable& table) {
  // What the kernel says at once tells more than a wait in vain.
  const auto telling = std::ranges::find_if(group.ways, [](const LinkResult* r) { return fails_at_once(*r); });
  const LinkResult& way = **(telling == group.ways.end() ? group.ways.begin() : telling);
  Finding finding{Severity::Fails, "link",
                  fmt::format("{}: none of its {} carries: {}", group.name, group.text(), faults_of(group)),
                  cure_of(way)};
  if (others_join(group, table)) {
    const HostAddress& address = way.to_host == group.host ? way.link.to : way.link.from;
    finding.severity = Severity::Warns;
    finding.found += "; other networks join the hosts";
    finding.cure += fmt::format("; until then leave {} out with SINEW_INTERFACE", address.interface);
  }
  finding.hosts = group.blamed(table);
  return finding;
}

Finding finding_of(const LinkResult& way, const LinkTable& table) {
  Finding finding{Severity::Fails,
                  "link",
                  fmt::format("{}: {}", table.text(way), fault_of(way)),
                  cure_of(way),
                  {table.name(way.from_host), table.name(way.to_host)}};
  const LinkResult* back = table.back_of(way);
  if (back != nullptr && back->state == LinkState::Carries) {
    finding.found += "; the way back works";
    if (way.state == LinkState::Unreachable && way.to_host != kMeetingHost) {
      finding.severity = Severity::Warns;
      finding.found += ", and tcp connects by it; ucx and ofi may not";
    }
  }
  if (table.joins(way.from_host, way.to_host)) {
    finding.severity = Severity::Warns;
    finding.found += "; another network joins the two";
  }
  return finding;
}

}  // namespace

std::vector<Finding> broken_links(const LinkTable& table) {
  std::vector<Finding> found;
  std::set<const LinkResult*> said;
  const auto is_broken = [](const LinkResult& r) { return r.state != LinkState::Carries; };
  for (const WayGroup& group : groups_with_fault(table, is_broken)) {
    found.push_back(finding_of(group, table));
    said.insert(group.ways.begin(), group.ways.end());
  }
  for (const LinkResult& r : table.results()) {
    if (is_broken(r) && !said.contains(&r)) found.push_back(finding_of(r, table));
  }
  return found;
}

std::vector<Finding> unjoined_hosts(const LinkTable& table) {
  constexpr const char* kCure =
      "ip link set DEVICE up; SINEW_INTERFACE, if it is set, must name interfaces that all hosts have";
  const int hosts = static_cast<int>(table.hosts().size());
  std::vector<Finding> found;
  std::set<int> alone;
  for (int h = 0; h < hosts && hosts > 2; ++h) {
    if (table.touches(h)) continue;
    alone.insert(h);
    found.push_back({Severity::Fails,
                     "link",
                     fmt::format("{} has no interface that is up and could reach any other host", table.name(h)),
                     kCure,
                     {table.name(h)}});
  }
  for (int a = 0; a < hosts; ++a) {
    for (int b = a + 1; b < hosts; ++b) {
      if (table.has(a, b) || alone.contains(a) || alone.contains(b)) continue;
      found.push_back({Severity::Fails,
                       "link",
                       fmt::format("{} and {} have no interfaces that are up and could reach each other", table.name(a),
                                   table.name(b)),
                       kCure,
                       {table.name(a), table.name(b)}});
    }
  }
  return found;
}

}  // namespace sinew::doctor
