#pragma once

#include <string>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/planner/costs/question.hpp>

namespace sinew::parallel {

/// "tp 8 pp 12 dp 2 cp 1, zero 1, micro-batch 1, interleaved x4, recompute selective"
SINEW_API std::string layout_text(const PlanQuestion& question, const JobConfig& config);

/// The configuration for the question that a text describes:
/// "tp=8,pp=4,cp=1,ep=1,zero=1,micro-batch=2,schedule=interleaved,virtual-stages=2,recompute=full". dp may be given.
/// ZeRO++: "weights=int8,gradients=int4,near=8". The budget of sharded stages (JobConfig::prefetch_bytes):
/// "budget=12GiB".
/// Defaults for what is left out: sizes of 1, zero 0, 1f1b, no recomputation.
/// Errors: InvalidArgument naming an entry that is unknown or has a wrong value, and the possible ones.
SINEW_API JobConfig layout_from_text(const PlanQuestion& question, const std::string& text);

}  // namespace sinew::parallel
