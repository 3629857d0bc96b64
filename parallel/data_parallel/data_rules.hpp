#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sinew/core/buffer.hpp>
#include <sinew/parallel/data_parallel/data_parallel.hpp>
#include <sinew/parallel/mesh/mesh.hpp>
#include <sinew/parallel/step_graph/graph.hpp>

namespace sinew::parallel {

/// Errors: InvalidArgument that lists all that is wrong with what a strategy is asked for.
void require_sound(const std::vector<DataParameter>& parameters, const DataRow& row, const DataParallelOptions& options,
                   std::optional<std::span<const ConstBuffer>> whole_values);

/// Each axis once, and a group for whatever exchanges go along.
/// Errors: InvalidArgument naming it.
void require_groups(Mesh& mesh, const std::vector<std::string>& axes, const StepGraph& graph);

/// What all ranks must ask for alike.
std::string text_of(const DataRow& row, const DataParallelOptions& options);

}  // namespace sinew::parallel
