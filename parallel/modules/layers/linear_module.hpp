#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/common/call_group.hpp>
#include <sinew/parallel/common/group_place.hpp>
#include <sinew/parallel/compute/blas.hpp>
#include <sinew/parallel/invariant/leaves.hpp>
#include <sinew/parallel/modules/module.hpp>
#include <sinew/parallel/modules/sample_sums.hpp>
#include <sinew/parallel/placement/rows.hpp>
#include <sinew/parallel/tensor/column_linear.hpp>
#include <sinew/parallel/tensor/row_linear.hpp>

namespace sinew::parallel {

/// The surroundings that the layers of a model share: the ranks along "tp", and who multiplies.
struct LayerGroup {
  CallGroup tensor;
  Blas* blas;
  /// Sequence parallelism: between layers each rank has some of the rows.
  bool sequence_parallel = false;
  /// With sequence parallelism: rows are multiplied as they arrive, and sent on as they are summed
  /// (LinearShape::decomposed).
  bool decomposed = false;
  /// Sums do not depend on the number of ranks (invariant/leaves.hpp). `blas` is an InvariantBlas then, and passes have
  /// SampleSums. Attention without sinks, linear layers, norms, embeddings and predictions can do that.
  bool invariant = false;

  /// The number of rows that this rank has between layers, of `rows` in all.
  std::int64_t own_rows(std::int64_t rows) const {
    const GroupPlace place(*tensor);
    return sequence_parallel ? rows_of({}, place.rank, place.ranks, rows).count() : rows;
  }
  /// The shape of a layer whose rows are cut as those of this group.
  template <class Shape>
  Shape with_rows(Shape shape) const {
    shape.sequence_parallel = sequence_parallel;
    if constexpr (requires { shape.decomposed; }) {
      shape.decomposed = decomposed;
      if (invariant && shape.leaves == 0) shape.leaves = std::min(leaves_of(shape.inputs), leaves_of(shape.outputs));
    }
    return shape;
  }
};

/// The owner of a module's table of tokens, which the first and the last module of a model may share.
enum class TableOwner : std::uint8_t {
  Module,      ///< the module itself
  Shared,      ///< modules of this rank, which share it (ParameterList::add_shared)
  OtherStage,  ///< a stage of the pipeline on another rank (ParameterList::add_copy)
};

struct LinearOptions {
  bool bias = true;
  double deviation = 0.02;  ///< of the weight's initial values; the bias begins with zeros
  /// The owner of the weight. With Shared, the table of an EmbeddingModule predicts tokens, too.
  TableOwner owner = TableOwner::Module;
};

/// Adds a table [vocabulary, width] to a module's parameters.
std::int32_t add_table(ParameterList& list, TableOwner owner, DataParameter table, double deviation);

/// A ColumnLinear as a module: every rank makes some of the outputs.
/// Shape:  x [own rows, inputs], out [rows, outputs of this rank].
/// Errors: as ColumnLinear.
template <class T>
class SINEW_API ColumnModule final : public Module<T> {
 public:
  ColumnModule(const LayerGroup& group, const LinearShape& shape, const LinearOptions& options = {});

  std::int64_t in_elements() const override;
  std::int64_t out_elements() const override;
  ArrayCounts forward_arrays(bool /*keeps*/) const override { return {all_rows_elements()}; }
  ArrayCounts backward_arrays() const override { return {all_rows_elements(), layer_.partial_rows() * shape_.inputs}; }
  std::string_view name() const override { return shape_.name; }
  bool runs_on_devices() const override { return shape_.leaves == 0; }
  void declare(ParameterList& list) override;
  void forward(Pass<T>& pass, const T* x, Kept<T>& kept, T* out) override;
  void input_gradient(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout, T* dx) override;
  void weight_gradient(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout) override;
  /// The input's gradient is summed over the ranks while that of the weight is computed.
  void backward(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout, T* dx) override;

 private:
  void add_weight_gradient(Pass<T>& pass, const T* all_rows, const T* dout);
  /// Elements of the array in which the inputs of all ranks are gathered. 0: this rank has all rows.
  std::int64_t all_rows_elements() const noexcept { return shape_.sequence_parallel ? shape_.rows * shape_.inputs : 0; }

  LinearShape shape_;
  LinearOptions options_;
  ColumnLinear<T> layer_;
  std::int32_t weight_ = -1, bias_ = -1;
};

/// A RowLinear as a module: every rank takes some of the inputs, and the outputs are summed over the ranks.
/// Shape:  x [rows, inputs of this rank], out [own rows, outputs].
/// Errors: as RowLinear.
template <class T>
class SINEW_API RowModule final : public Module<T> {
 public:
  RowModule(const LayerGroup& group, const LinearShape& shape, const LinearOptions& options = {});

  std::int64_t in_elements() const override;
  std::int64_t out_elements() const override;
  ArrayCounts deferred_arrays() const override { return {all_rows_elements()}; }
  ArrayCounts forward_arrays(bool /*keeps*/) const override { return {layer_.partial_rows() * shape_.outputs}; }
  std::string_view name() const override { return shape_.name; }
  bool runs_on_devices() const override { return shape_.leaves == 0; }
  void declare(ParameterList& list) override;
  void forward(Pass<T>& pass, const T* x, Kept<T>& kept, T* out) override;
  void input_gradient(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout, T* dx) override;
  void weight_gradient(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout) override;

 private:
  /// Elements of the array in which the gradients of all ranks' outputs are gathered. 0: this rank has all rows.
  std::int64_t all_rows_elements() const noexcept {
    return shape_.sequence_parallel ? shape_.rows * shape_.outputs : 0;
  }

  CallGroup group_;
  LinearShape shape_;
  LinearOptions options_;
  RowLinear<T> layer_;
  std::int32_t weight_ = -1, bias_ = -1;
};

extern template class ColumnModule<float>;
extern template class ColumnModule<double>;
extern template class RowModule<float>;
extern template class RowModule<double>;

}  // namespace sinew::parallel
