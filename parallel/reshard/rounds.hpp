#pragma once

#include <cstddef>
#include <vector>

#include <sinew/parallel/reshard/flows.hpp>

namespace sinew::parallel {

/// Divides flows into messages and puts these into rounds, each message into the first round that has room for it.
/// Fills `messages`, `rounds` and `most_in_flight` of the plan.
void fill_rounds(ReshardPlan& plan, const std::vector<Flow>& flows, std::size_t ranks, std::size_t bytes_in_flight);

}  // namespace sinew::parallel
