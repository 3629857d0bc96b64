#pragma once

#include <set>
#include <string>

#include <sinew/collectives/communicator.hpp>
#include <sinew/core/config.hpp>

namespace sinew::doctor {

/// Why calls that SINEW_TUNE has rules for would be refused, each reason once. For every collective that a rule names,
/// it plans the smallest call of f32 that the rule covers, in host and in device memory. A rule for all collectives
/// refuses no job as long as one collective can run.
std::set<std::string> refused_by_rules(const Communicator& all, const Config& config);

}  // namespace sinew::doctor
