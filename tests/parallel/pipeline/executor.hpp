#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>

#include <sinew/parallel/pipeline/schedule/schedule.hpp>

namespace sinew::parallel::test {

/// Runs a schedule on symbols, ranks in random turns, over queues between each two ranks: the n-th receive takes what
/// the n-th send had. Returns what went wrong; empty: every stage has the gradient that one process alone computes.
/// Where `most_under_way` is given, a send waits while that many sends of its queue have no receive posted.
/// Shape: every value of rank_of is a rank.
std::string execute(const PipelineSchedule& schedule, std::mt19937& random,
                    std::optional<std::int32_t> most_under_way = std::nullopt);

}  // namespace sinew::parallel::test
