#pragma once

#include <string>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/job/job_config.hpp>
#include <sinew/parallel/planner/costs/collective_costs.hpp>
#include <sinew/parallel/planner/costs/question.hpp>

namespace sinew::parallel {

/// Lists what the optimizer of exchanges does to a step, as text for people: the exchanges of data parallelism
/// (describe_exchanges), and those of a layer that ranks share. The layer is written with an exchange for each
/// operation. Its exchanges are those of one microbatch, forward and backward. Each rank saves its own rows of gathered
/// inputs.
/// Shape: a configuration that breaks no rule.
/// Model: the layer has attention with as many heads of keys as of queries, and an MLP with two matrices. The exchanges
///        of other layers are the same. It is not listed if no layer of the model has attention.
SINEW_API std::string planned_exchanges(const PlanQuestion& question, const JobConfig& config, CollectiveCosts& costs);

}  // namespace sinew::parallel
