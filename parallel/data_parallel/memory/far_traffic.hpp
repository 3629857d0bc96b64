#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/data_parallel/plan/options.hpp>
#include <sinew/parallel/data_parallel/plan/row.hpp>
#include <sinew/parallel/mesh/factorisation.hpp>
#include <sinew/parallel/parameter/parameter.hpp>

namespace sinew::parallel {

/// Bytes that a rank sends to ranks that are not near, in a step.
struct FarTraffic {
  std::int64_t weights = 0;    ///< of gathers
  std::int64_t gradients = 0;  ///< of sums
  std::int64_t total() const noexcept { return weights + gradients; }
};

/// Predicts what a rank sends between hosts, from the graph that a step will run. Nothing is allocated or sent. It
/// assumes that each plain exchange crosses to other hosts as seldom as possible: an element that is gathered is sent
/// once to each other host, and a gradient is summed within a host first. The ranks of a host share this work equally.
/// near: the axes along which ranks are of one host. {}: each rank has a host of its own.
/// passes: the micro-batches of a step. All but the last are within no_sync().
/// Errors: as plan_step. InvalidArgument for axes that the shape lacks.
SINEW_API FarTraffic far_traffic(const std::vector<DataParameter>& parameters, const DataRow& row,
                                 const DataParallelOptions& options, const Factorisation& shape,
                                 const std::string& near, std::int64_t passes = 1);

}  // namespace sinew::parallel
