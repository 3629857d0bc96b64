#include "agreement.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace sinew::doctor {
namespace {

/// A World is refused where these differ, or its ranks never meet.
constexpr std::array<std::string_view, 2> kMustAgree{"SINEW_TUNE", "SINEW_OFI_PROVIDER"};
/// With these the job runs, but not as one of its ranks was told to.
constexpr std::array<std::string_view, 3> kShouldAgree{"SINEW_TRANSPORTS", "SINEW_TRANSPORT_PATH", "SINEW_TIMEOUT"};

/// Empty: all ranks have what rank 0 has; else "rank 0 has 'a', rank 3 on node2 has 'b'", one rank for each value.
template <class ValueOf>
std::string difference(std::span<const RankRecord> ranks, ValueOf value_of) {
  std::vector<std::string> values;
  std::vector<std::string> texts;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const std::string value = value_of(ranks[r]);
    if (std::ranges::find(values, value) != values.end()) continue;
    values.push_back(value);
    const std::string where = ranks[r].host_name.empty() ? "" : " on " + ranks[r].host_name;
    texts.push_back(fmt::format("rank {}{} has {}", r, where, value.empty() ? "none" : value));
  }
  return values.size() < 2 ? "" : fmt::format("{}", fmt::join(texts, ", "));
}

std::string value_in(const RankRecord& rank, std::string_view name) {
  const auto found = std::ranges::find(rank.settings, name, &Setting::name);
  return found == rank.settings.end() ? "" : found->value;
}

}  // namespace

std::vector<Finding> check_versions(std::span<const RankRecord> ranks) {
  constexpr const char* kCure =
      "install the same package of sinew on every host, and look at LD_LIBRARY_PATH and PATH there";
  if (const std::string differ = difference(ranks, [](const RankRecord& r) { return r.version; }); !differ.empty()) {
    return {{Severity::Fails, "version", differ, kCure}};
  }
  if (const std::string differ = difference(ranks, [](const RankRecord& r) { return r.build; }); !differ.empty()) {
    return {{Severity::Warns, "version", "builds differ: " + differ, kCure}};
  }
  return {{Severity::Fine, "version", fmt::format("sinew {} on all ranks", ranks.front().version)}};
}

std::vector<Finding> check_settings(std::span<const RankRecord> ranks) {
  std::vector<Finding> found;
  const auto compare = [&](std::string_view name, Severity severity) {
    const std::string differ = difference(ranks, [&](const RankRecord& r) { return value_in(r, name); });
    if (differ.empty()) return;
    found.push_back({severity, "variables", fmt::format("{} differs: {}", name, differ),
                     fmt::format("set {0} alike on all hosts: sinew-run hands SINEW_* on, mpirun takes -x {0}", name)});
  };
  for (const std::string_view name : kMustAgree) compare(name, Severity::Fails);
  for (const std::string_view name : kShouldAgree) compare(name, Severity::Warns);
  if (found.empty()) found.push_back({Severity::Fine, "variables", "ranks agree"});
  return found;
}

std::vector<Finding> check_modules(std::span<const HostRecord> records, std::span<const std::string> hosts) {
  std::vector<Finding> found;
  std::vector<std::string> names;
  for (const HostRecord& record : records) {
    for (const ModuleRecord& m : record.modules) {
      if (m.ok && std::ranges::find(names, m.name) == names.end()) names.push_back(m.name);
    }
  }
  for (const std::string& name : names) {
    for (std::size_t h = 0; h < records.size(); ++h) {
      const auto module = std::ranges::find(records[h].modules, name, &ModuleRecord::name);
      if (module != records[h].modules.end() && module->ok) continue;
      found.push_back(
          {Severity::Warns,
           "transports",
           fmt::format("{} is on other hosts, not here: {}", name,
                       module == records[h].modules.end() ? "no such module" : module->reason),
           fmt::format("install what {} needs here, or do without it: the job takes what all hosts have", name),
           {hosts[h]}});
    }
  }
  if (found.empty()) {
    found.push_back(
        {Severity::Fine, "transports",
         fmt::format("modules that can be loaded{}: {}; `sinew-info transports` says which of them work here",
                     hosts.size() > 1 ? ", on all hosts" : "",
                     names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")))});
  }
  return found;
}

}  // namespace sinew::doctor
