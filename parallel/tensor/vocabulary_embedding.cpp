#include <algorithm>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/common/group_place.hpp>
#include <sinew/parallel/common/matrix.hpp>
#include <sinew/parallel/tensor/linear_shape.hpp>
#include <sinew/parallel/tensor/vocabulary_embedding.hpp>

namespace sinew::parallel {
namespace {

Pair pair_of(const EmbeddingShape& shape) {
  return shape.sequence_parallel ? reduce_scatter_pair({0, shape.row_cut.offsets}) : reduce_pair();
}

}  // namespace

template <class T>
VocabularyEmbedding<T>::VocabularyEmbedding(CallGroup group, const std::string& axis, const EmbeddingShape& shape,
                                            const ComputeDevice& device)
    : shape_(shape),
      axis_(axis),
      place_(group),
      mine_(rows_of(checked_cut(shape.cut, place_.ranks, shape.vocabulary, shape.name, axis), place_.rank, place_.ranks,
                    shape.vocabulary)),
      own_rows_(shape.rows),
      pair_(group, axis, {shape.name + " output", dtype_of_layer<T>(), {shape.rows, shape.width}, {}}, pair_of(shape),
            device),
      device_(device),
      math_(layer_math<T>(device)) {
  if (shape.sequence_parallel) own_rows_ = rows_of(shape.row_cut, place_.rank, place_.ranks, shape.rows).count();
}

template <class T>
DataParameter VocabularyEmbedding<T>::parameter(const DataParameter& like) const {
  return embedding_parameter(shape_, axis_, place_.rank, place_.ranks, like);
}

template <class T>
void VocabularyEmbedding<T>::require(std::span<const std::int64_t> tokens) const {
  if (std::ssize(tokens) != shape_.rows)
    throw Error(Code::InvalidArgument,
                fmt::format("embedding '{}': {} tokens, expected {}", shape_.name, tokens.size(), shape_.rows));
  const auto bad = std::ranges::find_if(tokens, [&](std::int64_t t) { return t < 0 || t >= shape_.vocabulary; });
  if (bad != tokens.end())
    throw Error(Code::InvalidArgument, fmt::format("embedding '{}': token {} in row {}, expected 0 to {}", shape_.name,
                                                   *bad, bad - tokens.begin(), shape_.vocabulary - 1));
}

template <class T>
void VocabularyEmbedding<T>::forward(std::span<const std::int64_t> tokens, const T* table, T* whole, T* out) {
  require(tokens);
  math_->gather_rows(tokens_.of(device_, tokens), mine_.first, mine_.last, table, shape_.rows, shape_.width, T{0},
                     whole);
  pair_.forward().run({Partial{}, elements_of<T>(static_cast<const T*>(whole), shape_.rows * shape_.width)},
                      elements_of(out, own_rows_ * shape_.width));
}

template <class T>
void VocabularyEmbedding<T>::backward(std::span<const std::int64_t> tokens, const T* dout, T* whole, T beta, T* to) {
  require(tokens);
  const T* from = dout;
  if (shape_.sequence_parallel) {
    Exchange& exchange = pair_.backward();
    exchange.run({exchange.from(), elements_of(dout, own_rows_ * shape_.width)},
                 elements_of(whole, shape_.rows * shape_.width));
    from = whole;
  }
  const std::int64_t count = mine_.count() * shape_.width;
  if (beta == T{0}) {
    math_->fill(to, T{0}, count);
  } else if (beta != T{1}) {
    math_->add(to, beta - T{1}, to, count);
  }
  math_->scatter_rows(tokens_.of(device_, tokens), mine_.first, mine_.last, from, shape_.rows, shape_.width, to);
}

template class VocabularyEmbedding<float>;
template class VocabularyEmbedding<double>;

}  // namespace sinew::parallel
