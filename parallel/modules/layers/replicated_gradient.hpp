#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include <sinew/collectives/communicator.hpp>
#include <sinew/parallel/common/group_place.hpp>
#include <sinew/parallel/modules/pass.hpp>

namespace sinew::parallel {

/// Adds and reports the gradient of a parameter that every rank of a group has whole. compute(to) writes what this
/// rank's rows or heads add to it. summed: the ranks over which that is summed. Null: every rank computes all of it.
template <class T, class F>
void add_replicated_gradient(Pass<T>& pass, std::int32_t parameter, std::int64_t elements, Communicator* summed,
                             F&& compute) {
  const PooledArray<T> sums = pass.take(elements);
  compute(sums.data());
  if (summed != nullptr && GroupPlace(*summed).ranks > 1)
    summed->all_reduce(std::span<T>(sums.data(), sums.size()), ReduceOp::Sum, {.label = "a replicated gradient"}).get();
  pass.add_gradient(parameter, [&](T* to, T beta) {
    for (std::size_t i = 0; i < sums.size(); ++i) to[i] = (beta == T{0} ? T{0} : beta * to[i]) + sums.data()[i];
  });
  pass.ready(parameter);
}

}  // namespace sinew::parallel
