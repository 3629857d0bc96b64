#pragma once

#include <algorithm>
#include <span>

#include <sinew/collectives/communicator.hpp>

#include "../math/vector_math.hpp"
#include "../model/store.hpp"
#include "weights.hpp"

namespace gpt {

/// Gradients of what every tensor-parallel rank holds whole. With rows cut between layers each rank has those of its
/// own rows only: their sum is made before they are reported.
template <class T>
class Replicated {
 public:
  /// group: null where each rank has seen all rows.
  explicit Replicated(sinew::Communicator* group = nullptr) noexcept : group_(group) {}

  void sum(std::span<T> gradients) const {
    if (group_ != nullptr) group_->all_reduce(gradients).get();
  }
  /// Of all rows, to what the store has.
  static void report(Store& store, Weights<T>& weights, int p, std::span<const T> gradient) {
    weights.add_gradient(store, p, gradient.size(), [&](T* to, T beta) {
      if (beta == T{0}) std::fill_n(to, gradient.size(), T{0});
      add(to, gradient.data(), gradient.size());
    });
    store.gradient_ready(p);
  }

 private:
  sinew::Communicator* group_;
};

}  // namespace gpt
