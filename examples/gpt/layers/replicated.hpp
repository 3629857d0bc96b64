#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include <sinew/collectives/communicator.hpp>
#include <sinew/parallel/common/group_place.hpp>
#include <sinew/parallel/common/matrix.hpp>
#include <sinew/parallel/placement/rows.hpp>
#include <sinew/parallel/tensor/exchange.hpp>

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
  /// Those rows of a pass of which each rank has its own, from all of them: into `room`. `own` where each has all.
  const T* whole(const T* own, std::int64_t rows, std::int64_t columns, std::vector<T>& room) const {
    if (group_ == nullptr) return own;
    room.resize(static_cast<std::size_t>(rows * columns));
    const sinew::parallel::Shard cut{0};
    const sinew::parallel::GroupPlace place(*group_);
    const std::int64_t mine = sinew::parallel::rows_of(cut, place.rank, place.ranks, rows).count();
    const sinew::parallel::TensorSpec tensor{
        "rows", sinew::parallel::dtype_of_layer<T>(), {rows, columns}, sinew::parallel::Placements{}};
    sinew::parallel::Exchange gather(*group_, "gather", "tp", tensor, cut, sinew::parallel::Replicate{});
    gather.run({cut, sinew::parallel::elements_of(own, mine * columns)},
               sinew::parallel::elements_of(room.data(), rows * columns));
    return room.data();
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
