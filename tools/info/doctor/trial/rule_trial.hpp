#pragma once

#include <set>
#include <string>

#include <sinew/collectives/communicator.hpp>
#include <sinew/core/config.hpp>

namespace sinew::doctor {

/// Why calls that SINEW_TUNE has rules for would be refused, each reason once: of every collective that a rule names
/// the smallest call of f32 that it is for is planned, in host and in device memory. A rule for all of them refuses no
/// job as long as one can run.
std::set<std::string> refused_by_rules(const Communicator& all, const Config& config);

}  // namespace sinew::doctor
