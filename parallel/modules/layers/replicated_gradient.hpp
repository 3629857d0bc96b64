#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include <sinew/collectives/communicator.hpp>
#include <sinew/parallel/common/group_place.hpp>
#include <sinew/parallel/common/matrix.hpp>
#include <sinew/parallel/compute/placed_array.hpp>
#include <sinew/parallel/modules/sample_sums.hpp>
#include <sinew/parallel/placement/rows.hpp>
#include <sinew/parallel/tensor/exchange.hpp>

namespace sinew::parallel {

/// Adds and reports the gradient of a parameter that every rank of a group has whole. compute(to) writes what this
/// rank's rows or heads add to it. summed: the ranks over which that is summed. Null: every rank computes all of it.
template <class T, class F>
void add_replicated_gradient(Pass<T>& pass, std::int32_t parameter, std::int64_t elements, Communicator* summed,
                             F&& compute) {
  const PooledArray<T> sums = pass.take(elements);
  compute(sums.data());
  if (summed != nullptr && GroupPlace(*summed).ranks > 1) {
    const Buffer all = placed(pass.device(), sums.data(), elements);
    summed
        ->all_reduce(all, all, dtype_of_layer<T>(), ReduceOp::Sum,
                     in_order(pass.device(), {.label = "a replicated gradient"}))
        .get();
  }
  pass.add_gradient(parameter, [&](T* to, T beta) { pass.math().add(sums.data(), beta, to, elements); });
  pass.ready(parameter);
}

/// Adds, sample by sample, the sums of rows [rows of the pass, columns] of the tensor-parallel group.
template <class T>
void add_sample_rows(Pass<T>& pass, std::int32_t parameter, const T* rows, std::int64_t columns) {
  pass.by_sample->add(pass, parameter, columns, [&](std::int64_t row, T* to) {
    pass.by_sample->sum_rows(rows + row * columns, columns, columns, to);
  });
}

/// The rows of a pass, of which each rank of a group has its own under sequence parallelism.
template <class T>
struct AllRows {
  const T* data = nullptr;
  PooledArray<T> gathered{};
};

/// Gathers the rows of all ranks. group: null if each rank has all rows.
template <class T>
AllRows<T> all_rows_of(Pass<T>& pass, Communicator* group, const T* own, std::int64_t rows, std::int64_t columns) {
  if (group == nullptr) return {own, {}};
  AllRows<T> all{nullptr, pass.take(rows * columns)};
  const GroupPlace place(*group);
  const Shard cut{0};
  const std::int64_t mine = rows_of(cut, place.rank, place.ranks, rows).count();
  const TensorSpec tensor{"rows of a norm or an embedding", dtype_of_layer<T>(), {rows, columns}, Placements{}};
  Exchange gather(*group, "gather", "tp", tensor, cut, Replicate{});
  gather.run({cut, elements_of(own, mine * columns)}, elements_of(all.gathered.data(), rows * columns));
  all.data = all.gathered.data();
  return all;
}

}  // namespace sinew::parallel
