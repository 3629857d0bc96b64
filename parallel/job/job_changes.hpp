#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sinew/parallel/common/rule_table.hpp>
#include <sinew/parallel/job/engine_facts.hpp>
#include <sinew/parallel/job/job_config.hpp>
#include <sinew/parallel/mesh/layout_changes.hpp>

namespace sinew::parallel {

/// A job that somebody asks for. It may be impossible.
struct JobRequest {
  int ranks = 0;
  JobConfig config;
  const EngineFacts* engine = nullptr;
};

using JobRule = RuleOf<JobRequest>;
using JobChange = ChangeOf<JobRequest>;
using JobChanges = ChangesOf<JobRequest>;

/// One setting changed to another value.
template <class T>
JobChange changed(const JobRequest& asked, T JobConfig::*field, T value, std::string text) {
  JobChange change{std::move(text), asked};
  change.to.config.*field = value;
  return change;
}

/// Other whole numbers for a setting, nearest first: "zero 3".
template <class T>
JobChanges to_each(const JobRequest& asked, T JobConfig::*field, std::string_view name,
                   std::vector<std::int64_t> values) {
  const auto now = static_cast<std::int64_t>(asked.config.*field);
  std::erase(values, now);
  std::ranges::sort(values, {}, [now](std::int64_t v) { return std::pair(std::abs(v - now), v); });
  JobChanges changes;
  for (const std::int64_t v : values)
    changes.push_back(changed(asked, field, static_cast<T>(v), std::string(name) + " " + std::to_string(v)));
  return changes;
}

/// The possible changes of each of several settings.
using AllChanges = std::vector<JobChanges>;

/// Changes of each of these settings.
template <class... Of>
auto any_of(Of... of) {
  return [of...](const JobRequest& asked) { return AllChanges{of(asked)...}; };
}

template <class T>
auto set_to(T JobConfig::*field, T value, const char* text) {
  return [=](const JobRequest& asked) { return JobChanges{changed(asked, field, value, text)}; };
}

/// A rule about layouts as a rule about jobs.
JobRule of_layout(const RuleOf<LayoutRequest>& rule);

}  // namespace sinew::parallel
