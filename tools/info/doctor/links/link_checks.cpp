#include "link_checks.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "broken_links.hpp"
#include "link_faults.hpp"
#include "link_speeds.hpp"
#include "link_table.hpp"
#include "way_groups.hpp"

namespace sinew::doctor {
namespace {

Finding slow_finding(const std::string& found, const LinkResult& way, std::vector<std::string> hosts) {
  return {Severity::Warns, "link", found,
          fmt::format("cable, switch port and negotiated rate (ethtool {}), and what else uses them",
                      way.link.from.interface),
          std::move(hosts)};
}

/// Of an interface that is slow to or from everybody once, with the slowest of its ways.
std::vector<Finding> slow_findings(const LinkTable& table) {
  std::map<const LinkResult*, std::string> slow;
  for (const SlowLink& s : slow_links(table.results())) slow.emplace(s.link, s.found);
  std::vector<Finding> found;
  std::set<const LinkResult*> said;
  for (const WayGroup& group : groups_with_fault(table, [&](const LinkResult& r) { return slow.contains(&r); })) {
    const LinkResult& worst = **std::ranges::min_element(group.ways, {}, &LinkResult::bytes_per_s);
    found.push_back(slow_finding(
        fmt::format("{}: all its {} are slow; {}: {}", group.name, group.text(), table.text(worst), slow.at(&worst)),
        worst, group.blamed(table)));
    said.insert(group.ways.begin(), group.ways.end());
  }
  for (const auto& [way, text] : slow) {
    if (said.contains(way)) continue;
    found.push_back(slow_finding(fmt::format("{}: {}", table.text(*way), text), *way,
                                 {table.name(way->from_host), table.name(way->to_host)}));
  }
  return found;
}

}  // namespace

std::vector<Finding> check_links(std::span<const std::string> hosts, std::span<const LinkResult> results) {
  const LinkTable table(hosts, results);
  std::vector<Finding> found = unjoined_hosts(table);
  for (Finding& f : broken_links(table)) found.push_back(std::move(f));
  for (Finding& f : slow_findings(table)) found.push_back(std::move(f));
  if (found.empty()) found.push_back({Severity::Fine, "link", speeds_text(results)});
  return found;
}

std::vector<Finding> check_own_links(const std::string& host, std::span<const LinkResult> results) {
  std::vector<Finding> found;
  for (const LinkResult& r : results) {
    if (r.state == LinkState::Carries) continue;
    found.push_back({Severity::Warns,
                     "link",
                     fmt::format("{} from this host itself: {}", r.link.to.text(), fault_of(r)),
                     cure_of(r),
                     {host}});
  }
  if (found.empty() && !results.empty()) found.push_back({Severity::Fine, "link", speeds_text(results), "", {host}});
  return found;
}

}  // namespace sinew::doctor
