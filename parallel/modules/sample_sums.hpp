#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/common/call_group.hpp>
#include <sinew/parallel/invariant/exact_sum.hpp>
#include <sinew/parallel/invariant/invariant_blas.hpp>
#include <sinew/parallel/invariant/leaf_rows.hpp>
#include <sinew/parallel/invariant/tree_sum.hpp>
#include <sinew/parallel/modules/pass.hpp>

namespace sinew::parallel {

/// One of several uses of a parameter in a pass, such as a table that embeds tokens and also predicts them.
struct ParameterUse {
  int number = 0, of = 1;
};
/// The uses of a table by the module that predicts, and by the one that embeds.
inline constexpr ParameterUse kPredicts{0, 2}, kEmbeds{1, 2};

/// Layout-invariant gradients: their bits do not depend on which rank has which samples and positions, nor on the
/// passes that they come in. The gradient of each sample is a tree over the leaf blocks of its positions, over all
/// ranks that share the sample. The samples of a step are the leaves of a second tree.
/// Give it to a model's passes (Pass::by_sample). Modules then pass the gradients of each sample to add().
/// Thread:   the World's. Collective over the ranks that share samples.
/// Lifetime: ends before the communicator.
/// Cost:     memory for log2(samples) + 1 vectors of each gradient, and for one vector for each sample of a pass. If
///           ranks share samples, an all_reduce of the latter.
template <class T>
class SINEW_API SampleSums {
 public:
  /// context: the ranks that share samples. samples: those that this rank sees in a step, an aligned power of two of
  /// the global batch. of_sample: this rank's rows of one sample.
  /// Errors: InvalidArgument as require_leaves.
  SampleSums(CallGroup context, std::int64_t samples, const LeafRows& of_sample);

  /// Adds what a pass gives to the gradient of a parameter. f(first row, to) writes the gradient of the sample whose
  /// rows begin there. When all samples of the step have come, their sum is added to the gradient.
  template <class F>
  void add(Pass<T>& pass, std::int32_t parameter, std::int64_t elements, const F& f, const ParameterUse& use = {}) {
    const auto all = static_cast<std::size_t>(pass.batch.samples * elements);
    if (pass_.size() < all) pass_ = std::vector<T>(all);
    for (std::int64_t s = 0; s < pass.batch.samples; ++s) f(s * of_sample_.rows, pass_.data() + s * elements);
    take(pass, parameter, elements, use);
    pass.ready(parameter);
  }

  // --- the rows of a sample --------------------------------------------------------------------------------------

  /// to [m, n] = the sum over the sample's rows of a[row, m] * b[row, n].
  void multiply(const T* a, std::int64_t la, std::int64_t m, const T* b, std::int64_t lb, std::int64_t n, T* to);
  void sum_rows(const T* rows, std::int64_t columns, std::int64_t stride, T* to) const {
    sum_leaf_rows(rows, of_sample_, columns, stride, to);
  }
  const LeafRows& of_sample() const noexcept { return of_sample_; }
  /// The samples that this rank sees in a step.
  std::int64_t samples() const noexcept { return samples_; }

  // --- a parameter that two stages of a pipeline use -------------------------------------------------------------

  /// The gradients of a copy (ParameterList::add_copy) by sample, [samples, elements]. They are kept here.
  std::span<T> of_copy(std::int32_t copy, std::int64_t elements);
  /// Adds the gradients of a copy where the parameter itself is.
  void add_of_copy(Pass<T>& pass, std::int32_t parameter, std::span<const T> of_copy, const ParameterUse& use);

  /// The losses of all positions since somebody set it to {}.
  ExactSum& losses() noexcept { return losses_; }
  std::size_t held_bytes() const noexcept;
  /// The same in advance, for modules with these parameters. samples: those of this rank. overtakes: microbatches
  /// overtake each other, as in a pipeline.
  static std::size_t planned_bytes(const ParameterList& list, std::int64_t samples_of_pass,
                                   std::int64_t samples_of_step, bool overtakes);

 private:
  TreeSum<T>& tree_of(std::int32_t parameter, std::int64_t elements, const ParameterUse& use);
  void take(Pass<T>& pass, std::int32_t parameter, std::int64_t elements, const ParameterUse& use);
  void put(Pass<T>& pass, std::int32_t parameter, TreeSum<T>& tree, std::int64_t leaf, std::vector<T> values);

  CallGroup context_;
  std::int64_t samples_;
  LeafRows of_sample_;
  InvariantBlas blas_;
  std::map<std::int32_t, TreeSum<T>> trees_;        // by parameter
  std::map<std::int32_t, std::vector<T>> of_copy_;  // by copy
  std::vector<T> pass_;
  ExactSum losses_;
};

extern template class SampleSums<float>;
extern template class SampleSums<double>;

}  // namespace sinew::parallel
