#include "rule_trial.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>

#include <sinew/collectives/selection/facts.hpp>
#include <sinew/core/error.hpp>
#include <sinew/tools/common/sized_call.hpp>

namespace sinew::doctor {
namespace {

/// nullopt: it can run, or there is no call to try.
using Refusal = std::optional<std::string>;

/// So many bytes, and an element for each rank at least; nullopt: the rule is for less.
std::optional<std::uint64_t> bytes_to_try(const Rule& rule, Collective collective, int ranks) {
  if (collective == Collective::Barrier) return rule.min_bytes == 0 ? std::optional<std::uint64_t>(0) : std::nullopt;
  const std::uint64_t one = sizeof(float) * static_cast<std::uint64_t>(ranks);
  const std::uint64_t times = std::max<std::uint64_t>(1, rule.min_bytes / one + (rule.min_bytes % one != 0 ? 1 : 0));
  return times <= rule.max_bytes / one ? std::optional(times * one) : std::nullopt;
}

Refusal plan_in(const Communicator& all, CollectiveDesc call, Place place) {
  call.place = place;
  try {
    static_cast<void>(all.plan(call));
  } catch (const Error& error) {
    return error.what();
  }
  return std::nullopt;
}

Refusal refusal_of(const Communicator& all, const Rule& rule, Collective collective) {
  const auto bytes = bytes_to_try(rule, collective, all.size());
  if (!bytes) return std::nullopt;
  const auto call = tools::sized_call({.collective = collective, .dtype = DType::F32}, *bytes, all.size());
  const Refusal on_host = plan_in(all, call.desc, {});
  return on_host && plan_in(all, call.desc, {MemoryKind::Device, 0}) ? on_host : std::nullopt;
}

Refusal refusal_of_all(const Communicator& all, const Rule& rule) {
  Refusal first;
  for (int c = 0; c < static_cast<int>(Collective::Barrier); ++c) {
    const Refusal refusal = refusal_of(all, rule, static_cast<Collective>(c));
    if (!refusal) return std::nullopt;
    if (!first) first = refusal;
  }
  return first;
}

}  // namespace

std::set<std::string> refused_by_rules(const Communicator& all, const Config& config) {
  std::set<std::string> reasons;
  for (const std::string& text : config.tune) {
    const Rule rule = Rule::parse(text);
    const auto collective = collective_from_name(rule.collective);
    const Refusal refusal = collective ? refusal_of(all, rule, *collective) : refusal_of_all(all, rule);
    if (refusal) reasons.insert(*refusal);
  }
  return reasons;
}

}  // namespace sinew::doctor
