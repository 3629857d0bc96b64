#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/dtype.hpp>
#include <sinew/parallel/mesh/factorisation.hpp>

namespace sinew::parallel {

/// Writes a model that the ranks of one axis share as a graph of computes, layer by layer. Every layer stands alone, as
/// authors of layers write them: it takes its input as layers pass rows on, whole or in parts (sequence parallelism),
/// and gives its output back so. What that moves too often remove_redundant_exchanges finds.
/// Shape: rows are [rows, width]; a layer takes the number of a tensor and returns that of its output.
class SINEW_API LayerGraph {
 public:
  struct Form {
    std::string axis = "tp";
    bool sequence_parallel = false;  ///< between layers each rank has its rows, not all
    DType dtype = DType::F32;
  };
  LayerGraph(const Factorisation& mesh, Form form);

  /// What the engine gives: data or a parameter.
  TensorId input(const std::string& name, std::vector<std::int64_t> shape, const Placement& placement);
  /// Rows as layers pass them on.
  TensorId rows(const std::string& name, std::int64_t rows, std::int64_t width);
  /// What the engine reads.
  void output(const std::string& name, TensorId tensor);

  /// A linear layer whose outputs are cut (ColumnLinear). The weight is `name`.weight, [outputs, inputs].
  TensorId column_linear(const std::string& name, TensorId x, std::int64_t outputs, const Shard& cut = {});
  /// A linear layer whose inputs are cut (RowLinear).
  TensorId row_linear(const std::string& name, TensorId x, std::int64_t outputs, const Shard& cut = {});
  /// Of each row, with a gain: mixes what is in a row.
  TensorId norm(const std::string& name, TensorId x);
  TensorId residual(const std::string& name, TensorId x, TensorId y);
  /// A function of single elements, as the engine knows it: "tanh".
  TensorId element_wise(const std::string& name, TensorId x, const std::string& function);
  /// Of rows that hold the heads side by side: mixes rows, each head apart. Any number of heads on any number of ranks.
  TensorId attention(const std::string& name, TensorId q, TensorId k, TensorId v, std::int64_t heads);

  /// Column, function, row.
  TensorId mlp(const std::string& name, TensorId x, std::int64_t hidden, const std::string& function = "gelu");
  /// q, k and v by columns, attention, and an output by rows.
  TensorId attention_block(const std::string& name, TensorId x, std::int64_t heads);

  /// Any compute of operands as they are; placements of the result follow.
  /// Errors: InvalidArgument naming compute, tensor, axis, and the placements found and expected.
  TensorId compute(const std::string& name, const ComputeRule& rule, const std::vector<TensorId>& operands,
                   std::vector<std::int64_t> shape);
  /// That tensor in another placement along the axis: an exchange, a split, or nothing where it is there.
  /// Errors: InvalidArgument where there is no way.
  TensorId moved(TensorId tensor, const Placement& to);

  const StepGraph& graph() const noexcept { return graph_; }

 private:
  const StepTensor& tensor(TensorId t) const { return graph_.tensors[static_cast<std::size_t>(t)]; }
  std::int64_t width(TensorId t) const { return tensor(t).shape.at(1); }
  Placement between() const;

  Factorisation mesh_;
  Form form_;
  StepGraph graph_;
};

}  // namespace sinew::parallel
