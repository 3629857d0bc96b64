#include <algorithm>
#include <bit>

#include <sinew/parallel/common/group_place.hpp>
#include <sinew/parallel/common/matrix.hpp>
#include <sinew/parallel/modules/sample_sums.hpp>

namespace sinew::parallel {

template <class T>
SampleSums<T>::SampleSums(CallGroup context, std::int64_t samples, const LeafRows& of_sample)
    : context_(context), samples_(samples), of_sample_(of_sample) {
  require_leaves(of_sample);
}

template <class T>
TreeSum<T>& SampleSums<T>::tree_of(std::int32_t parameter, std::int64_t elements, const ParameterUse& use) {
  // The leaves of a sample's uses are siblings.
  return trees_.try_emplace(parameter, use.of * samples_, static_cast<std::size_t>(elements)).first->second;
}

template <class T>
void SampleSums<T>::take(Pass<T>& pass, std::int32_t parameter, std::int64_t elements, const ParameterUse& use) {
  if (GroupPlace(*context_).ranks > 1)
    context_
        ->all_reduce(std::span(pass_).first(static_cast<std::size_t>(pass.batch.samples * elements)), ReduceOp::Sum,
                     {.determinism = Determinism::LayoutInvariant})
        .get();
  const T* from = pass_.data();
  for (std::int64_t s = 0; s < pass.batch.samples; ++s, from += elements) {
    const std::int64_t number = (pass.batch.first_sample + s) % samples_;
    if (ParameterList::is_copy(parameter)) {
      std::copy_n(from, elements, of_copy(parameter, elements).data() + number * elements);
      continue;
    }
    TreeSum<T>& tree = tree_of(parameter, elements, use);
    std::vector<T> leaf = tree.room();
    std::copy_n(from, elements, leaf.begin());
    put(pass, parameter, tree, use.of * number + use.number, std::move(leaf));
  }
}

template <class T>
void SampleSums<T>::put(Pass<T>& pass, std::int32_t parameter, TreeSum<T>& tree, std::int64_t leaf,
                        std::vector<T> values) {
  tree.add(leaf, std::move(values));
  if (!tree.is_complete()) return;
  std::vector<T> sum = tree.take();
  // All ranks that share samples have the sum. One of them gives it to the sum over ranks.
  if (GroupPlace(*context_).rank == 0) {
    pass.add_gradient(parameter, [&](T* to, T beta) {
      for (std::size_t i = 0; i < sum.size(); ++i) to[i] = (beta == T{0} ? T{0} : to[i]) + sum[i];
    });
  }
  tree.give_back(std::move(sum));
}

template <class T>
void SampleSums<T>::multiply(const T* a, std::int64_t la, std::int64_t m, const T* b, std::int64_t lb, std::int64_t n,
                             T* to) {
  blas_.multiply({.a_transposed = true,
                  .m = as_int(m),
                  .n = as_int(n),
                  .k = as_int(of_sample_.rows),
                  .la = as_int(la),
                  .lb = as_int(lb),
                  .lc = as_int(n),
                  .k_leaf = as_int(of_sample_.leaf),
                  .k_folded = of_sample_.folded},
                 T{1}, a, b, T{0}, to);
}

template <class T>
std::span<T> SampleSums<T>::of_copy(std::int32_t copy, std::int64_t elements) {
  std::vector<T>& all = of_copy_[copy];
  all.resize(static_cast<std::size_t>(samples_ * elements));
  return all;
}

template <class T>
void SampleSums<T>::add_of_copy(Pass<T>& pass, std::int32_t parameter, std::span<const T> of_copy,
                                const ParameterUse& use) {
  const std::int64_t elements = std::ssize(of_copy) / samples_;
  TreeSum<T>& tree = tree_of(parameter, elements, use);
  for (std::int64_t s = 0; s < samples_; ++s) {
    std::vector<T> leaf = tree.room();
    std::copy_n(of_copy.data() + s * elements, elements, leaf.begin());
    put(pass, parameter, tree, use.of * s + use.number, std::move(leaf));
  }
}

template <class T>
std::size_t SampleSums<T>::held_bytes() const noexcept {
  std::size_t held = pass_.size() * sizeof(T);
  for (const auto& [p, tree] : trees_) held += tree.held_bytes();
  for (const auto& [p, of] : of_copy_) held += of.size() * sizeof(T);
  return held;
}

template <class T>
std::size_t SampleSums<T>::planned_bytes(const ParameterList& list, std::int64_t samples_of_pass,
                                         std::int64_t samples_of_step, bool overtakes) {
  const auto height = [](std::int64_t samples) { return std::countr_zero(static_cast<std::uint64_t>(samples)); };
  std::int64_t elements = 0, most = 0;
  for (const DataParameter& p : list.dense().parameters) {
    const std::int64_t n = p.box.elements();
    elements += n * (height(samples_of_step) + 1);
    most = std::max(most, n);
    if (!list.is_shared(p.path)) continue;
    elements += n * (overtakes ? samples_of_step - height(samples_of_step) : samples_of_pass - height(samples_of_pass));
  }
  for (const DataParameter& p : list.copies()) {
    most = std::max(most, p.box.elements());
    elements += p.box.elements() * samples_of_step;
  }
  return static_cast<std::size_t>(elements + most * samples_of_pass) * sizeof(T);
}

template class SampleSums<float>;
template class SampleSums<double>;

}  // namespace sinew::parallel
