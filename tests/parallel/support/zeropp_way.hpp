#pragma once

#include <optional>

#include <sinew/core/dtype.hpp>
#include <sinew/parallel/data_parallel/data_parallel.hpp>

namespace sinew::parallel::test {

/// The parts of ZeRO++ that a job uses, and its dtypes.
struct Way {
  bool weights = false, near = false, gradients = false;  // qwZ, hpZ, qgZ
  bool in_two_stages = true;
  DType dtype = DType::F32;
  std::optional<DType> gradient{};  // {}: as the parameters

  DataParallelOptions options() const {
    DataParallelOptions o{};
    if (weights) o.weights = WeightWire::Int8;
    if (near) o.step.reshard_axes = "near";
    o.wire.int4 = gradients;
    if (gradients && in_two_stages) o.step.scatter_axes = "near";
    return o;
  }
};
inline Way everything(DType dtype = DType::F32) { return {true, true, true, true, dtype}; }

}  // namespace sinew::parallel::test
