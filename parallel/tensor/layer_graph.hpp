#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/dtype.hpp>
#include <sinew/parallel/mesh/factorisation.hpp>
#include <sinew/parallel/step_graph/graph.hpp>

namespace sinew::parallel {

/// Writes a model whose layers the ranks of one axis share, layer by layer, as a graph of computes. Each layer stands
/// alone: it takes and returns rows in the placement that layers have between them. Under sequence parallelism, that is
/// each rank's rows. layer_step() (tensor/layer_step.hpp) then removes exchanges that the layers do not need.
/// Shape: rows are [rows, width]. A layer takes the number of its input tensor, and returns the number of its output.
class SINEW_API LayerGraph {
 public:
  /// The properties that all layers have in common.
  struct Form {
    std::string axis = "tp";
    bool sequence_parallel = false;  ///< between layers each rank has its rows only
    DType dtype = DType::F32;
  };
  LayerGraph(const Factorisation& mesh, Form form);

  /// Adds a tensor that the engine gives: data or a parameter.
  TensorId input(const std::string& name, std::vector<std::int64_t> shape, const Placement& placement);
  /// Adds rows in the placement that layers have between them.
  TensorId rows(const std::string& name, std::int64_t rows, std::int64_t width);
  /// Adds a gate at which the engine reads the tensor.
  void output(const std::string& name, TensorId tensor);

  /// A linear layer whose outputs are cut (ColumnLinear). The weight is `name`.weight, [outputs, inputs].
  TensorId column_linear(const std::string& name, TensorId x, std::int64_t outputs, const Shard& cut = {});
  /// A linear layer whose inputs are cut (RowLinear).
  TensorId row_linear(const std::string& name, TensorId x, std::int64_t outputs, const Shard& cut = {});
  /// A norm of each row, with a gain. It needs whole rows.
  TensorId norm(const std::string& name, TensorId x);
  TensorId residual(const std::string& name, TensorId x, TensorId y);
  /// A function of single elements, by the name that the engine knows: "tanh".
  TensorId element_wise(const std::string& name, TensorId x, const std::string& function);
  /// Attention over rows that hold the heads side by side. It needs all rows of a head. Any number of heads on any
  /// number of ranks.
  TensorId attention(const std::string& name, TensorId q, TensorId k, TensorId v, std::int64_t heads);

  /// A column-parallel layer, a function, and a row-parallel layer.
  TensorId mlp(const std::string& name, TensorId x, std::int64_t hidden, const std::string& function = "gelu");
  /// q, k and v by column-parallel layers, attention, and a row-parallel output.
  TensorId attention_block(const std::string& name, TensorId x, std::int64_t heads);

  /// Any compute of operands in their present placements. The placement of the result follows.
  /// Errors: InvalidArgument naming compute, tensor, axis, and the placements found and expected.
  TensorId compute(const std::string& name, const ComputeRule& rule, const std::vector<TensorId>& operands,
                   std::vector<std::int64_t> shape);
  /// The tensor in another placement along the axis: by an exchange, by a split, or unchanged if it is there already.
  /// Errors: InvalidArgument if there is no such exchange.
  TensorId moved(TensorId tensor, const Placement& to);

  const StepGraph& graph() const noexcept { return graph_; }
  const Factorisation& mesh() const noexcept { return mesh_; }

 private:
  const StepTensor& tensor(TensorId t) const { return graph_.tensors[static_cast<std::size_t>(t)]; }
  std::int64_t width(TensorId t) const { return tensor(t).shape.at(1); }
  Placement between() const;

  Factorisation mesh_;
  Form form_;
  StepGraph graph_;
};

}  // namespace sinew::parallel
