#include <algorithm>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/common/group_place.hpp>
#include <sinew/parallel/modules/layers/attention_module.hpp>
#include <sinew/parallel/modules/layers/replicated_gradient.hpp>

namespace sinew::parallel {
namespace {

int shared_heads(const AttentionShape& shape) {
  return shape.key_value_heads > 0 ? shape.key_value_heads : shape.heads;
}

int head_width(const AttentionShape& shape) {
  if (shape.heads < 1 || shape.width % shape.heads != 0)
    throw Error(Code::InvalidArgument,
                fmt::format("attention '{}': a width of {} for {} heads, expected a multiple of the "
                            "heads",
                            shape.name, shape.width, shape.heads));
  return static_cast<int>(shape.width / shape.heads);
}

/// The heads of one rank. Query heads that share a head of keys and values may be on two ranks.
AttentionHeads heads_of(const AttentionShape& shape, const HeadCut& cut) {
  const int each = shape.heads / shared_heads(shape);
  const std::int64_t first = cut.queries.count() == 0 ? 0 : cut.queries.first - cut.key_values.first * each;
  return {static_cast<int>(cut.queries.count()), static_cast<int>(cut.key_values.count()), head_width(shape), each,
          static_cast<int>(first)};
}

/// Offsets of what each tensor-parallel rank has. extent(heads of a rank): how much that is.
template <class F>
std::vector<std::int64_t> offsets_of(const AttentionShape& shape, const LayerGroup& group, const F& extent) {
  std::vector<std::int64_t> offsets{0};
  const int ranks = GroupPlace(*group.tensor).ranks;
  for (int r = 0; r < ranks; ++r)
    offsets.push_back(offsets.back() + extent(heads_of(shape, cut_heads(shape.heads, shared_heads(shape), r, ranks))));
  return offsets;
}

int context_rank(const ContextGroup& context) {
  return GroupPlace(*context.ring).rank * GroupPlace(*context.head_sharers).ranks +
         GroupPlace(*context.head_sharers).rank;
}

void require_positions_of(const AttentionShape& shape, const ContextGroup& context) {
  const int ranks = GroupPlace(*context.ring).ranks * GroupPlace(*context.head_sharers).ranks;
  if (shape.positions.ranks() != ranks)
    throw Error(
        Code::InvalidArgument,
        fmt::format("attention '{}': positions are cut over {} ranks, expected {}, those of both context groups",
                    shape.name, shape.positions.ranks(), ranks));
}

LinearShape linear_shape(const AttentionShape& shape, const LayerGroup& group, const ContextGroup& context,
                         const std::string& name) {
  require_positions_of(shape, context);
  LinearShape of{.name = shape.name + name, .rows = shape.sequences * shape.positions.tokens(context_rank(context))};
  of.inputs = of.outputs = shape.width;
  of.sequence_parallel = group.sequence_parallel;
  of.decomposed = group.decomposed;
  return of;
}

LinearShape shape_of_qkv(const AttentionShape& shape, const LayerGroup& group, const ContextGroup& context) {
  LinearShape of = linear_shape(shape, group, context, ".qkv");
  of.cut.offsets =
      offsets_of(shape, group, [](const AttentionHeads& heads) { return heads.width() + 2 * heads.key_value_width(); });
  of.outputs = of.cut.offsets.back();
  if (group.invariant)  // as many leaf blocks of queries as of keys and values
    of.leaves = std::min(leaves_of(shape.width), leaves_of(std::int64_t{shared_heads(shape)} * head_width(shape)));
  return of;
}

LinearShape shape_of_out(const AttentionShape& shape, const LayerGroup& group, const ContextGroup& context) {
  LinearShape of = linear_shape(shape, group, context, ".out");
  of.cut.offsets = offsets_of(shape, group, [](const AttentionHeads& heads) { return heads.width(); });
  return of;
}

ContextShape shape_of_context(const AttentionShape& shape, const LayerGroup& group, const ContextGroup& context,
                              const AttentionHeads& heads) {
  return {heads, shape.positions, GroupPlace(*context.head_sharers).ranks, shape.sequences, group.invariant};
}

}  // namespace

template <class T>
ContextAttention<T>& SharedAttention<T>::get(const ContextGroup& context, Blas& blas, const ContextShape& shape) {
  if (!attention_) {
    attention_.emplace(context.head_sharers, context.ring, blas, shape);
    heads_ = shape.heads;
    sequences_ = shape.sequences;
  }
  if (heads_.width() != shape.heads.width() || heads_.key_value_width() != shape.heads.key_value_width() ||
      sequences_ != shape.sequences)
    throw Error(Code::InvalidArgument,
                fmt::format("shared attention: {} elements of queries and {} of keys for {} sequences, expected {}, {} "
                            "and {}, as the first layer that used it",
                            shape.heads.width(), shape.heads.key_value_width(), shape.sequences, heads_.width(),
                            heads_.key_value_width(), sequences_));
  return *attention_;
}

template <class T>
AttentionModule<T>::AttentionModule(const LayerGroup& group, const ContextGroup& context, const AttentionShape& shape,
                                    const LinearOptions& options, std::shared_ptr<SharedAttention<T>> shared)
    : shape_(shape),
      group_(group),
      options_(options),
      cut_(
          cut_heads(shape.heads, shared_heads(shape), GroupPlace(*group.tensor).rank, GroupPlace(*group.tensor).ranks)),
      heads_(heads_of(shape, cut_)),
      qkv_shape_(shape_of_qkv(shape, group, context)),
      qkv_(group.tensor, "tp", *group.blas, qkv_shape_),
      out_(group, shape_of_out(shape, group, context),
           {.bias = options.bias, .deviation = shape.out_deviation.value_or(options.deviation)}),
      context_(context),
      context_shape_(shape_of_context(shape, group, context, heads_)),
      attention_(shared ? std::move(shared) : std::make_shared<SharedAttention<T>>()),
      inside_(static_cast<std::int64_t>(ContextAttention<T>::kept_for(context_shape_, context_rank(context)))),
      masks_(static_cast<std::size_t>(shape.sequences), AttentionMask(shape.causal)) {
  attention_->expect(context_shape_, context_rank(context));
  const std::int64_t width = heads_.width(), key_values = heads_.key_value_width();
  const std::int64_t stored = cut_.key_values_cut ? key_values : std::int64_t{shared_heads(shape)} * heads_.head_width;
  const std::int64_t first = cut_.key_values_cut ? 0 : cut_.key_values.first * heads_.head_width;
  queries_ = {.rows = width, .outputs = {{0, width}}, .at = {0}};
  keys_values_ = {.rows = 2 * stored,
                  .outputs = {{width, width + key_values}, {width + key_values, width + 2 * key_values}},
                  .at = {first, stored + first},
                  .whole = !cut_.key_values_cut};
}

/// A weight of shape [..., width] and its bias [...]. They are cut along the last dimension of the bias.
template <class T>
void AttentionModule<T>::declare(ParameterList& list, Projection& of, const std::string& name,
                                 std::vector<std::int64_t> shape, const Rows& mine) {
  const auto part = [&](const char* what, const std::vector<std::int64_t>& whole) {
    const DataParameter p = whole_parameter(list.like(), shape_.name + name + what, whole);
    return of.whole ? p : cut_along(p, shape.size() - 1, mine, "tp", GroupPlace(*group_.tensor).ranks);
  };
  std::vector<std::int64_t> of_weight = shape;
  of_weight.push_back(shape_.width);
  of.weight = list.add(part(".weight", of_weight), normally_distributed(options_.deviation));
  if (options_.bias) of.bias = list.add(part(".bias", shape), all_equal_to(0));
}

template <class T>
void AttentionModule<T>::declare(ParameterList& list) {
  const std::int64_t w = heads_.head_width;
  declare(list, queries_, ".queries", {shape_.width}, {cut_.queries.first * w, cut_.queries.last * w});
  declare(list, keys_values_, ".keys_values", {2, shared_heads(shape_) * w},
          {cut_.key_values.first * w, cut_.key_values.last * w});
  out_.declare(list);
  if (!shape_.sinks) return;
  const DataParameter of_heads = whole_parameter(list.like(), shape_.name + ".sinks", {shape_.heads});
  sinks_ = list.add(cut_along(of_heads, 0, cut_.queries, "tp", GroupPlace(*group_.tensor).ranks), all_equal_to(0));
}

/// Calls f(outputs of qkv_, weight of these outputs, their bias or null) for queries, keys and values. Parameters are
/// converted once, however often f computes with them.
template <class T>
template <class F>
void AttentionModule<T>::with_weights(Pass<T>& pass, const F& f) const {
  std::vector<typename Pass<T>::Values> held;
  held.reserve(4);
  std::vector<Weights> weights;
  for (const Projection* of : {&queries_, &keys_values_}) {
    const T* const weight = held.emplace_back(pass.values(of->weight)).data();
    const T* const bias = options_.bias ? held.emplace_back(pass.values(of->bias)).data() : nullptr;
    for (std::size_t i = 0; i < of->outputs.size(); ++i)
      weights.push_back(
          {of->outputs[i], weight + of->at[i] * shape_.width, bias != nullptr ? bias + of->at[i] : nullptr});
  }
  f(weights);
}

template <class T>
template <class U>
Projections<U> AttentionModule<T>::projections(U* qkv) const noexcept {
  U* const keys = qkv + heads_.width();
  return {qkv, keys, keys + heads_.key_value_width(), row_width(), row_width()};
}

template <class T>
ArrayCounts AttentionModule<T>::backward_arrays() const {
  ArrayCounts first_half{rows() * heads_.width(), qkv_.partial_rows() * shape_.width};
  if (qkv_shape_.leaves > 0) first_half += {rows() * row_width(), row_width() * shape_.width};
  ArrayCounts second_half{all_rows_elements()};
  if (keys_values_.whole && !group_.invariant) second_half += {keys_values_.rows * shape_.width};
  return kept_arrays() + deferred_arrays() + most_of(std::move(first_half), second_half);
}

template <class T>
void AttentionModule<T>::forward(Pass<T>& pass, const T* x, Kept<T>& kept, T* out) {
  kept.arrays.push_back(pass.take(rows() * row_width()));
  kept.arrays.push_back(pass.take(rows() * heads_.width()));
  kept.arrays.push_back(pass.take(inside_));
  kept.parts.resize(1);
  T *const qkv = kept.arrays[0].data(), *const mixed = kept.arrays[1].data();
  const PooledArray<T> whole = pass.take(all_rows_elements());
  with_weights(pass, [&](const std::vector<Weights>& weights) {
    qkv_.gather(x, whole.data(), [&](const T* all, const Rows& here) {
      for (const Weights& w : weights) qkv_.multiply(all, w.weight, w.bias, here, w.outputs, qkv);
    });
  });
  const auto sinks = shape_.sinks ? pass.values(sinks_) : typename Pass<T>::Values{};
  attention_->get(context_, *group_.blas, context_shape_)
      .forward(masks(pass), projections<const T>(qkv), mixed, kept.arrays[2].data(), sinks.data());
  out_.forward(pass, mixed, kept.parts[0], out);
}

template <class T>
void AttentionModule<T>::input_gradient(Pass<T>& pass, const T* /*x*/, Kept<T>& kept, const T* dout, T* dx) {
  const PooledArray<T> dmixed = pass.take(rows() * heads_.width());
  kept.gradients.clear();
  kept.gradients.push_back(pass.take(rows() * row_width()));
  T* const dqkv = kept.gradients[0].data();
  out_.input_gradient(pass, kept.arrays[1].data(), kept.parts[0], dout, dmixed.data());
  kept.gradients.push_back(pass.take(of_sinks()));
  const auto sinks = shape_.sinks ? pass.values(sinks_) : typename Pass<T>::Values{};
  attention_->get(context_, *group_.blas, context_shape_)
      .backward(masks(pass), projections<const T>(kept.arrays[0].data()), kept.arrays[1].data(), kept.arrays[2].data(),
                dmixed.data(), projections<T>(dqkv), sinks.data(), kept.gradients[1].data());
  if (dx == nullptr) return;
  const PooledArray<T> partial = pass.take(qkv_.partial_rows() * shape_.width);
  with_weights(pass, [&](const std::vector<Weights>& weights) {
    const auto add_back = [&](const Rows& here, T* to) {
      if (qkv_shape_.leaves > 0) return multiply_back_by_leaves(pass, weights, dqkv, to);
      T beta{0};
      for (const Weights& w : weights)
        qkv_.multiply_back(dqkv, w.weight, here, w.outputs, std::exchange(beta, T{1}), to);
    };
    qkv_.sum(add_back, partial.data(), dx).get();
  });
}

template <class T>
void AttentionModule<T>::multiply_back_by_leaves(Pass<T>& pass, const std::vector<Weights>& weights, const T* dqkv,
                                                 T* to) {
  const std::int64_t n = row_width(), inputs = shape_.width, leaf = qkv_shape_.outputs / qkv_shape_.leaves;
  const std::int64_t leaves = n / leaf;  // of this rank
  const PooledArray<T> slopes = pass.take(rows() * n), matrix = pass.take(n * inputs);
  std::int64_t in_leaf = 0;  // elements of the weights before
  for (const Weights& w : weights) {
    const std::int64_t each = w.outputs.count() / leaves;
    for (std::int64_t l = 0; l < leaves; ++l) {
      const std::int64_t at = l * leaf + in_leaf, from = l * each;
      std::copy_n(w.weight + from * inputs, each * inputs, matrix.data() + at * inputs);
      for (std::int64_t r = 0; r < rows(); ++r)
        std::copy_n(dqkv + r * n + w.outputs.first + from, each, slopes.data() + r * n + at);
    }
    in_leaf += each;
  }
  qkv_.multiply_back(slopes.data(), matrix.data(), {0, rows()}, {0, n}, T{0}, to);
}

template <class T>
void AttentionModule<T>::add_sample_gradients(Pass<T>& pass, const Projection& of, const T* all_rows, const T* dqkv) {
  SampleSums<T>& sums = *pass.by_sample;
  const std::int64_t n = row_width(), inputs = shape_.width;
  const auto add = [&](std::int32_t parameter, std::int64_t columns, const auto& gradient) {
    sums.add(pass, parameter, of.rows * columns, [&](std::int64_t row, T* to) {
      for (std::size_t i = 0; i < of.outputs.size(); ++i)
        gradient(row, dqkv + row * n + of.outputs[i].first, of.outputs[i].count(), to + of.at[i] * columns);
    });
  };
  if (options_.bias)
    add(of.bias, 1, [&](std::int64_t, const T* d, std::int64_t m, T* to) { sums.sum_rows(d, m, n, to); });
  add(of.weight, inputs, [&](std::int64_t row, const T* d, std::int64_t m, T* to) {
    sums.multiply(d, n, m, all_rows + row * inputs, inputs, inputs, to);
  });
}

template <class T>
void AttentionModule<T>::add_gradients(Pass<T>& pass, const Projection& of, const T* all_rows, const T* dqkv) {
  if (pass.by_sample != nullptr) return add_sample_gradients(pass, of, all_rows, dqkv);
  const auto add = [&](std::int32_t parameter, std::int64_t columns, const auto& gradient) {
    const auto write = [&](T* to, T beta) {
      for (std::size_t i = 0; i < of.outputs.size(); ++i) gradient(of.outputs[i], beta, to + of.at[i] * columns);
    };
    if (!of.whole) {
      pass.add_gradient(parameter, write);
      return pass.ready(parameter);
    }
    add_replicated_gradient<T>(pass, parameter, of.rows * columns, &*group_.tensor, [&](T* to) {
      pass.math().fill(to, T{0}, of.rows * columns);  // of heads that no query of this rank looks at
      write(to, T{0});
    });
  };
  add(of.weight, shape_.width,
      [&](const Rows& o, T beta, T* to) { qkv_.weight_gradient(all_rows, dqkv, o, beta, to); });
  if (options_.bias) add(of.bias, 1, [&](const Rows& o, T beta, T* to) { qkv_.bias_gradient(dqkv, o, beta, to); });
}

template <class T>
void AttentionModule<T>::weight_gradient(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout) {
  out_.weight_gradient(pass, kept.arrays[1].data(), kept.parts[0], dout);
  const PooledArray<T> whole = pass.take(all_rows_elements());
  if (group_.sequence_parallel) qkv_.begin_gather(x, whole.data()).get();
  const T* const all_rows = group_.sequence_parallel ? whole.data() : x;
  for (const Projection* of : {&keys_values_, &queries_}) add_gradients(pass, *of, all_rows, kept.gradients[0].data());
  if (shape_.sinks) {
    pass.add_gradient(sinks_, [&](T* to, T beta) {
      for (std::int64_t h = 0; h < heads_.heads; ++h)
        to[h] = (beta == T{0} ? T{0} : to[h]) + kept.gradients[1].data()[h];
    });
    pass.ready(sinks_);
  }
  kept.gradients.clear();
}

template class SharedAttention<float>;
template class SharedAttention<double>;
template class AttentionModule<float>;
template class AttentionModule<double>;

}  // namespace sinew::parallel
