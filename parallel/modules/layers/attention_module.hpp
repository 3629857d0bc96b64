#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/context/context_attention.hpp>
#include <sinew/parallel/modules/layers/linear_module.hpp>
#include <sinew/parallel/tensor/head_cut.hpp>

namespace sinew::parallel {

/// The shape of an attention layer, and of the sequences of a pass. All counts are those of the whole layer.
struct AttentionShape {
  std::string name{};
  std::int64_t width = 0;
  int heads = 1;            ///< width is a multiple of it
  int key_value_heads = 0;  ///< heads of keys and values, which the others share; 0: as many as `heads`
  std::int64_t sequences = 1;
  SequenceCut positions;  ///< the cut of each sequence over the ranks of both context groups together
  bool causal = true;     ///< of sequences without masks of their own (MicroBatch::masks)
  /// Each head has a learnt score that every query sees, without a value.
  /// Source: Xiao et al., Efficient streaming language models with attention sinks, arXiv 2309.17453.
  bool sinks = false;
  std::optional<double> out_deviation{};  ///< of the weight of the projection behind; {}: LinearOptions::deviation
};

/// The ranks that share sequences. Both groups may be of one rank.
struct ContextGroup {
  CallGroup head_sharers;  ///< ranks that exchange tokens for heads (Ulysses)
  CallGroup ring;          ///< ranks round which keys and values go
};

/// The attention between heads and positions. Layers of one shape can share it, because only one of them computes at a
/// time: then its memory is there once. It is made at its first use.
/// Thread: the World's.
template <class T>
class SINEW_API SharedAttention {
 public:
  /// Errors: as ContextAttention. InvalidArgument for another shape than that of its first use.
  ContextAttention<T>& get(const ContextGroup& context, Blas& blas, const ContextShape& shape);
  std::size_t held_bytes() const noexcept { return attention_ ? attention_->held_bytes() : 0; }
  /// A layer of this shape will use it, on this rank of the context group. planned_bytes() is then what it will hold.
  void expect(const ContextShape& shape, int rank) {
    planned_ = ContextAttention<T>::room_for(shape, rank) * sizeof(T);
  }
  std::size_t planned_bytes() const noexcept { return planned_; }

 private:
  std::optional<ContextAttention<T>> attention_;
  AttentionHeads heads_{};  // of its shape
  std::int64_t sequences_ = 0;
  std::size_t planned_ = 0;
};

/// Attention of several heads: projections to queries, keys and values, attention over sequences that ranks may share,
/// and the projection behind it. Heads are cut over the tensor-parallel ranks. Each rank has one head or more.
/// Shape:  x, out [own rows, width]; rows are sequences * the positions of this rank.
/// Errors: as cut_heads, ContextAttention and the linear layers. InvalidArgument for a width that is no multiple of the
///         heads.
/// Source: Vaswani et al., arXiv 1706.03762; for shared keys and values, Ainslie et al., arXiv 2305.13245.
template <class T>
class SINEW_API AttentionModule final : public Module<T> {
 public:
  /// shared: null if the module has an attention of its own.
  AttentionModule(const LayerGroup& group, const ContextGroup& context, const AttentionShape& shape,
                  const LinearOptions& options = {}, std::shared_ptr<SharedAttention<T>> shared = nullptr);

  std::int64_t in_elements() const override { return qkv_.own_rows() * shape_.width; }
  std::int64_t out_elements() const override { return out_.out_elements(); }
  ArrayCounts kept_arrays() const override {
    return ArrayCounts{rows() * row_width(), rows() * heads_.width(), inside_} + out_.kept_arrays();
  }
  ArrayCounts deferred_arrays() const override {
    return ArrayCounts{rows() * row_width(), of_sinks()} + out_.deferred_arrays();
  }
  ArrayCounts forward_arrays(bool /*keeps*/) const override {
    return kept_arrays() + ArrayCounts{all_rows_elements()} + out_.forward_arrays(true);
  }
  ArrayCounts backward_arrays() const override;
  std::string_view name() const override { return shape_.name; }
  bool runs_on_devices() const override { return !shape_.sinks && !group_.invariant; }
  void declare(ParameterList& list) override;
  void forward(Pass<T>& pass, const T* x, Kept<T>& kept, T* out) override;
  void input_gradient(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout, T* dx) override;
  void weight_gradient(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout) override;

 private:
  /// Outputs of one parameter: outputs[i] of qkv_ are made by the rows of the parameter from at[i] on.
  struct Projection {
    std::int32_t weight = -1, bias = -1;
    std::int64_t rows = 0;           // of the parameter on this rank
    std::vector<Rows> outputs{};     // of qkv_
    std::vector<std::int64_t> at{};  // the first row of each
    bool whole = false;              // every rank has all of it
  };

  template <class U>
  Projections<U> projections(U* qkv) const noexcept;
  std::int64_t rows() const noexcept { return qkv_shape_.rows; }
  std::int64_t row_width() const noexcept { return heads_.width() + 2 * heads_.key_value_width(); }
  std::int64_t of_sinks() const noexcept { return shape_.sinks ? heads_.heads : 0; }
  /// Elements of the array in which the inputs of all ranks are gathered. 0: this rank has all rows.
  std::int64_t all_rows_elements() const noexcept { return group_.sequence_parallel ? rows() * shape_.width : 0; }
  /// The parameters of some outputs of qkv_.
  struct Weights {
    Rows outputs;
    const T *weight, *bias;
  };
  void declare(ParameterList& list, Projection& of, const std::string& name, std::vector<std::int64_t> shape,
               const Rows& mine);
  template <class F>
  void with_weights(Pass<T>& pass, const F& f) const;
  void add_gradients(Pass<T>& pass, const Projection& of, const T* all_rows, const T* dqkv);
  void add_sample_gradients(Pass<T>& pass, const Projection& of, const T* all_rows, const T* dqkv);
  /// Layout-invariant: to = the products of all of qkv_ with its weights, their leaf blocks side by side.
  void multiply_back_by_leaves(Pass<T>& pass, const std::vector<Weights>& weights, const T* dqkv, T* to);
  std::span<const AttentionMask> masks(const Pass<T>& pass) const {
    return pass.batch.masks.empty() ? std::span<const AttentionMask>(masks_) : pass.batch.masks;
  }

  AttentionShape shape_;
  LayerGroup group_;
  LinearOptions options_;
  HeadCut cut_;
  AttentionHeads heads_;
  LinearShape qkv_shape_;
  ColumnLinear<T> qkv_;
  Projection queries_, keys_values_;
  RowModule<T> out_;
  ContextGroup context_;
  ContextShape context_shape_;
  std::shared_ptr<SharedAttention<T>> attention_;
  std::int32_t sinks_ = -1;
  std::int64_t inside_;  // elements that the attention keeps
  std::vector<AttentionMask> masks_;
};

extern template class SharedAttention<float>;
extern template class SharedAttention<double>;
extern template class AttentionModule<float>;
extern template class AttentionModule<double>;

}  // namespace sinew::parallel
