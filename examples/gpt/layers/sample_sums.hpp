#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include <sinew/collectives/communicator.hpp>
#include <sinew/parallel/invariant/exact_sum.hpp>
#include <sinew/parallel/invariant/invariant_blas.hpp>
#include <sinew/parallel/invariant/leaf_rows.hpp>
#include <sinew/parallel/invariant/tree_sum.hpp>

#include "../model/store.hpp"

namespace gpt {

/// Gradients of weights whose bits do not depend on which rank sees which samples and positions, nor in which passes:
/// a tree over the leaf blocks of a sample's positions, ranks that share it included, and one over the samples of the
/// step above that. A tree has one order of its levels, so a rank's part of it is one vector only where it has whole
/// samples: ranks that share some sum each sample's gradients before they go on.
/// Cost: room for log2(samples) + 1 vectors of each gradient, and of one for each sample of a pass; where sequences are
///       cut an all_reduce of the latter.
template <class T>
class SampleSums {
 public:
  /// samples: that this rank sees in a step, an aligned power of two of the batch. of_sample: rows that it has of one.
  /// shared: a parameter that both the head and the embedding use.
  SampleSums(sinew::Communicator& context, std::int64_t samples, const sinew::parallel::LeafRows& of_sample,
             int shared);

  /// Begins a pass over these samples of the batch.
  void open(std::int64_t first_sample, int count) noexcept { first_ = first_sample, count_ = count; }
  /// What a pass gives to the gradient of a parameter: f(first row, to) writes that of a sample, whose rows begin
  /// there. Reports it, and adds the sum to what the store has when all samples have come.
  /// embedding: of `shared`, it is that use of it, not the head's.
  template <class F>
  void add(Store& store, int p, std::int64_t elements, const F& f, bool embedding = false) {
    if (std::ssize(pass_) < count_ * elements) pass_ = std::vector<T>(static_cast<std::size_t>(count_ * elements));
    for (int s = 0; s < count_; ++s) f(s * of_sample_.rows, pass_.data() + s * elements);
    take(store, p, elements, embedding);
    store.gradient_ready(p);
  }

  // --- of a sample's rows ----------------------------------------------------------------------------------------

  /// to [m, n] = the sum over rows of a[row, m] * b[row, n].
  void multiply(const T* a, std::int64_t la, std::int64_t m, const T* b, std::int64_t lb, std::int64_t n, T* to);
  void sum_rows(const T* rows, std::int64_t columns, std::int64_t stride, T* to) const {
    sinew::parallel::sum_leaf_rows(rows, of_sample_, columns, stride, to);
  }
  const sinew::parallel::LeafRows& of_sample() const noexcept { return of_sample_; }
  /// The number of rows of the pass in flight, on this rank and on each rank that shares its layers.
  std::int64_t pass_rows() const noexcept { return count_ * of_sample_.rows; }

  // --- a pipeline whose ends are on two ranks --------------------------------------------------------------------

  /// The head's gradients of `shared`, [samples, elements], which from now on are kept here where there is a head.
  std::vector<T>& of_head(std::int64_t elements);
  /// Takes them in, where the embedding is.
  void add_of_head(Store& store);

  /// Of each position that was predicted since somebody cleared it.
  sinew::parallel::ExactSum& losses() noexcept { return losses_; }
  std::size_t held_bytes() const noexcept;

 private:
  sinew::parallel::TreeSum<T>& tree_of(int p, std::int64_t elements);
  /// What pass_ begins with, of each sample.
  void take(Store& store, int p, std::int64_t elements, bool embedding);
  void put(Store& store, int p, sinew::parallel::TreeSum<T>& tree, std::int64_t leaf, std::vector<T> values);

  sinew::Communicator* context_;
  std::int64_t samples_;
  sinew::parallel::LeafRows of_sample_;
  int shared_;
  std::int64_t first_ = 0;
  int count_ = 0;
  sinew::parallel::InvariantBlas blas_;
  std::map<int, sinew::parallel::TreeSum<T>> trees_;  // by parameter
  std::vector<T> pass_, of_head_;
  sinew::parallel::ExactSum losses_;
};

extern template class SampleSums<float>;
extern template class SampleSums<double>;

}  // namespace gpt
