#include "sample_sums.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include <sinew/parallel/common/group_place.hpp>
#include <sinew/parallel/common/matrix.hpp>

namespace gpt {

namespace sp = sinew::parallel;

template <class T>
SampleSums<T>::SampleSums(sinew::Communicator& context, std::int64_t samples, const sp::LeafRows& of_sample, int shared)
    : context_(&context), samples_(samples), of_sample_(of_sample), shared_(shared) {
  sp::require_leaves(of_sample);
}

template <class T>
sp::TreeSum<T>& SampleSums<T>::tree_of(int p, std::int64_t elements) {
  // The head's and the embedding's leaves of a sample are siblings.
  return trees_.try_emplace(p, p == shared_ ? 2 * samples_ : samples_, static_cast<std::size_t>(elements))
      .first->second;
}

template <class T>
void SampleSums<T>::take(Store& store, int p, std::int64_t elements, bool embedding) {
  if (sp::GroupPlace(*context_).ranks > 1)
    context_
        ->all_reduce(std::span(pass_).first(static_cast<std::size_t>(count_ * elements)), sinew::ReduceOp::Sum,
                     {.determinism = sinew::Determinism::LayoutInvariant})
        .get();
  sp::TreeSum<T>& tree = tree_of(p, elements);
  const T* from = pass_.data();
  for (std::int64_t s = first_; s < first_ + count_; ++s, from += elements) {
    const std::int64_t number = s % samples_;
    if (p == shared_ && !embedding && !of_head_.empty()) {
      std::copy_n(from, elements, of_head_.begin() + number * elements);
      continue;
    }
    std::vector<T> leaf = tree.room();
    std::copy_n(from, elements, leaf.begin());
    put(store, p, tree, p == shared_ ? 2 * number + (embedding ? 1 : 0) : number, std::move(leaf));
  }
}

template <class T>
void SampleSums<T>::put(Store& store, int p, sp::TreeSum<T>& tree, std::int64_t leaf, std::vector<T> values) {
  tree.add(leaf, std::move(values));
  if (!tree.is_complete()) return;
  std::vector<T> sum = tree.take();
  // Of ranks that share samples, all of which have the sum, one gives it to the sum over ranks.
  if (sp::GroupPlace(*context_).rank == 0) {
    T* to = reinterpret_cast<T*>(store.gradient(p).data);
    for (std::size_t i = 0; i < sum.size(); ++i) to[i] += sum[i];
  }
  tree.give_back(std::move(sum));
}

template <class T>
void SampleSums<T>::multiply(const T* a, std::int64_t la, std::int64_t m, const T* b, std::int64_t lb, std::int64_t n,
                             T* to) {
  blas_.multiply({.a_transposed = true,
                  .m = sp::as_int(m),
                  .n = sp::as_int(n),
                  .k = sp::as_int(of_sample_.rows),
                  .la = sp::as_int(la),
                  .lb = sp::as_int(lb),
                  .lc = sp::as_int(n),
                  .k_leaf = sp::as_int(of_sample_.leaf),
                  .k_folded = of_sample_.folded},
                 T{1}, a, b, T{0}, to);
}

template <class T>
std::vector<T>& SampleSums<T>::of_head(std::int64_t elements) {
  of_head_.resize(static_cast<std::size_t>(samples_ * elements));
  return of_head_;
}

template <class T>
void SampleSums<T>::add_of_head(Store& store) {
  const std::int64_t elements = std::ssize(of_head_) / samples_;
  sp::TreeSum<T>& tree = tree_of(shared_, elements);
  for (std::int64_t s = 0; s < samples_; ++s) {
    std::vector<T> leaf = tree.room();
    std::copy_n(of_head_.begin() + s * elements, elements, leaf.begin());
    put(store, shared_, tree, 2 * s, std::move(leaf));
  }
}

template <class T>
std::size_t SampleSums<T>::held_bytes() const noexcept {
  std::size_t held = (of_head_.size() + pass_.size()) * sizeof(T);
  for (const auto& [p, tree] : trees_) held += tree.held_bytes();
  return held;
}

template class SampleSums<float>;
template class SampleSums<double>;

}  // namespace gpt
