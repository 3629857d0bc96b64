#pragma once

#include <cstdint>
#include <memory>
#include <string>
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
  bool causal = true;
};

/// The ranks that share sequences. Both groups may be of one rank.
struct ContextGroup {
  CallGroup head_sharers;  ///< ranks that exchange tokens for heads (Ulysses)
  CallGroup ring;          ///< ranks round which keys and values go
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
  AttentionModule(const LayerGroup& group, const ContextGroup& context, const AttentionShape& shape,
                  const LinearOptions& options = {});

  std::int64_t in_elements() const override { return qkv_.own_rows() * shape_.width; }
  std::int64_t out_elements() const override { return out_.out_elements(); }
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

  AttentionShape shape_;
  LayerGroup group_;
  LinearOptions options_;
  HeadCut cut_;
  AttentionHeads heads_;
  LinearShape qkv_shape_;
  ColumnLinear<T> qkv_;
  Projection queries_, keys_values_;
  RowModule<T> out_;
  ContextAttention<T> attention_;
  std::int64_t inside_;  // elements that the attention keeps
  std::vector<AttentionMask> masks_;
};

extern template class AttentionModule<float>;
extern template class AttentionModule<double>;

}  // namespace sinew::parallel
