#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/core/buffer.hpp>
#include <sinew/core/dtype.hpp>
#include <sinew/parallel/data_parallel/plan/options.hpp>
#include <sinew/parallel/data_parallel/plan/row.hpp>
#include <sinew/parallel/mesh/mesh.hpp>
#include <sinew/parallel/parameter/parameter.hpp>
#include <sinew/parallel/step_graph/graph.hpp>

namespace sinew::parallel {

/// Errors: InvalidArgument that lists everything that is wrong with the parameters, the row and the options.
void require_sound(const std::vector<DataParameter>& parameters, const DataRow& row, const DataParallelOptions& options,
                   std::optional<std::span<const ConstBuffer>> whole_values);

/// Checks that each axis is named once, and that the mesh has a group for each exchange of the graph.
/// Errors: InvalidArgument naming the axis or group.
void require_groups(Mesh& mesh, const std::vector<std::string>& axes, const StepGraph& graph);

/// Checks that the mesh has a group for the axes along which each parameter is spread.
/// Errors: InvalidArgument naming the parameter.
void require_spread(Mesh& mesh, const std::vector<DataParameter>& parameters);

/// The row and the options as text, by which ranks compare them.
std::string text_of(const DataRow& row, const DataParallelOptions& options);

/// what: "unit" or "parameter". Errors: InvalidArgument if the number is not one of `count`.
void require_number(std::string_view what, std::int32_t found, std::size_t count);

/// Errors: InvalidArgument if the parameter, or its gradient, is not of the type that was asked for.
void require_type(const DataParameter& parameter, DType asked, bool is_gradient);

}  // namespace sinew::parallel
