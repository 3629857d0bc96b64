#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <sinew/parallel/distributed_tensor/distributed_tensor.hpp>

// Whole tensors on one rank, with operations by their definitions, and their placing on a mesh: nothing of it is what
// parallel/distributed_tensor does.
namespace sinew::parallel::test {

struct Plain {
  std::vector<std::int64_t> shape{};
  std::vector<double> data{};

  double& at(const std::vector<std::int64_t>& index);
  double at(const std::vector<std::int64_t>& index) const;
};

Plain zeros(const std::vector<std::int64_t>& shape);
/// Numbers between -1 and 1, equal for equal seeds.
Plain any_plain(const std::vector<std::int64_t>& shape, unsigned seed);
/// Calls `visit` with each index of a shape.
void each_index(const std::vector<std::int64_t>& shape,
                const std::function<void(const std::vector<std::int64_t>&)>& visit);

/// The gradient of the sum of dout * f(inputs) with regard to inputs[which], by central differences.
using PlainFunction = std::function<Plain(const std::vector<Plain>&)>;
Plain difference_gradient(const PlainFunction& f, std::vector<Plain> inputs, std::size_t which, const Plain& dout);

/// All placements of a tensor of this shape along axes of a mesh. The tensor is whole, Partial of each of `pending`, or
/// cut in each dimension. Along a single axis cuts are also uneven, with empty parts. If there are two axes, all orders
/// are among the placements.
std::vector<Placements> all_placements(const std::vector<Axis>& axes, const std::vector<std::int64_t>& shape,
                                       const std::vector<ReduceOp>& pending = {ReduceOp::Sum});

/// The tensor on a mesh, of f64. Ranks of a Partial get different contributions.
DistributedTensor placed(Mesh& mesh, const std::string& name, const Plain& whole, const Placements& placements);

/// An operation on a mesh, and what its results must be as wholes.
struct PlacedCase {
  std::vector<Plain> inputs;
  std::vector<Plain> expected;
  std::function<std::vector<DistributedTensor>(std::vector<DistributedTensor>&)> run;
  double tolerance = 1e-12;
  std::vector<ReduceOp> pending{ReduceOp::Sum};
  std::size_t most = 100;  ///< if there are more combinations of placements, so many of them are drawn
};
/// Runs the operation with all combinations of placements of its inputs on each of the meshes, and compares all results
/// on all ranks.
void expect_everywhere(const std::vector<std::vector<Axis>>& meshes, const std::vector<PlacedCase>& cases);

/// [2], [3], [2, 2] and [4].
const std::vector<std::vector<Axis>>& small_meshes();
/// [1], [5], [8], [2, 3] and [4, 2].
const std::vector<std::vector<Axis>>& other_meshes();

}  // namespace sinew::parallel::test
