#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/job/engine_facts.hpp>
#include <sinew/parallel/job/job_config.hpp>
#include <sinew/parallel/mesh/factorisation.hpp>
#include <sinew/parallel/step_graph/graph.hpp>

namespace sinew::parallel {

/// Layout, batches, precision, and predicted memory and traffic of a rank, as text for people. The traffic is what data
/// parallelism sends between hosts, if the configuration has near ranks (JobConfig::near_ranks), as far_traffic()
/// predicts it. Otherwise it is what a rank sends to all others.
/// Shape: a configuration that breaks no rule.
SINEW_API std::string describe(int ranks, const JobConfig& config, const EngineFacts& engine);

/// Lists what the optimizer of exchanges does to a step of data parallelism, as DataParallel::explain(). Dense
/// parameters and experts are listed separately. No communicator is needed.
/// seconds: as ExchangePrices::seconds, along axes of `mesh`, such as by CollectiveCosts
/// (planner/costs/collective_costs.hpp). Empty: no times.
/// Shape: a configuration that breaks no rule.
SINEW_API std::string describe_exchanges(
    int ranks, const JobConfig& config, const EngineFacts& engine,
    const std::function<double(const Factorisation& mesh, NodeKind kind, std::string_view axes, std::int64_t bytes)>&
        seconds = {});

}  // namespace sinew::parallel
