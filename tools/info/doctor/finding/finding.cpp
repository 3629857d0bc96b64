#include "finding.hpp"

#include <algorithm>
#include <functional>

#include "lists.hpp"

namespace sinew::doctor {

std::string_view name_of(Severity severity) noexcept {
  switch (severity) {
    case Severity::Fine: return "ok";
    case Severity::Warns: return "warns";
    case Severity::Fails: return "fails";
  }
  return "?";
}

bool would_fail(std::span<const Finding> findings) noexcept {
  return std::ranges::any_of(findings, [](const Finding& f) { return f.severity == Severity::Fails; });
}

std::vector<Finding> merged(std::span<const Finding> findings) {
  std::vector<Finding> all;
  for (const Finding& f : findings) {
    const auto alike = std::ranges::find_if(all, [&f](const Finding& other) {
      return other.severity == f.severity && other.what == f.what && other.found == f.found && other.cure == f.cure;
    });
    if (alike == all.end()) {
      all.push_back(f);
    } else {
      for (const std::string& host : f.hosts) {
        if (std::ranges::find(alike->hosts, host) == alike->hosts.end()) alike->hosts.push_back(host);
      }
    }
  }
  std::ranges::stable_sort(all, std::ranges::greater(), &Finding::severity);
  return all;
}

void write(WireWriter& to, const Finding& f) {
  to.value(f.severity).text(f.what).text(f.found).text(f.cure);
  write_list(to, f.hosts, [&](const std::string& host) { to.text(host); });
}

Finding read_finding(WireReader& from) {
  Finding f;
  f.severity = from.value<Severity>();
  f.what = from.text();
  f.found = from.text();
  f.cure = from.text();
  f.hosts = read_list(from, [&] { return from.text(); });
  return f;
}

}  // namespace sinew::doctor
