#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/common/call_group.hpp>
#include <sinew/parallel/data_parallel/data_parallel.hpp>
#include <sinew/parallel/modules/array_pool.hpp>
#include <sinew/parallel/modules/parameter_list.hpp>
#include <sinew/parallel/modules/pass.hpp>

namespace sinew::parallel {

/// Parameters that two stages of a pipeline on different ranks use, such as a table that embeds tokens in the first
/// stage and predicts them in the last one. One stage owns the parameter. The other has a copy
/// (ParameterList::add_copy), which gets its values before a step. Its gradient goes to the owner after the step.
/// Thread:   the World's. Both calls of a step are collective over the owners and the copies' ranks.
/// Lifetime: ends before the pipeline's communicator and `dense`.
/// Errors:   the constructor throws InvalidArgument on all ranks of the pipeline if nobody owns what is copied.
/// Cost:     for each copy, two messages in a step, of the parameter and of its gradient.
template <class T>
class SINEW_API StageCopies {
 public:
  /// copies: those of this rank. dense: what this rank owns. Collective over the pipeline.
  StageCopies(CallGroup pipeline, std::vector<DataParameter> copies, DataParallel& dense);

  /// null if this rank has no copies.
  ParameterCopies* copies() noexcept { return copies_.copies.empty() ? nullptr : &copies_; }
  /// Brings the owners' values. Their units must be gathered.
  void begin_step();
  /// Adds the gradients of copies to those of the owners. pass: any pass of the step.
  void end_step(Pass<T>& pass);
  std::size_t held_bytes() const noexcept;

 private:
  /// A copy on one rank of the pipeline, and its owner on another.
  struct Link {
    int owner = 0, copier = 0;
    std::int32_t parameter = -1;  // on the owner
    std::size_t copy = 0;         // on the copier
  };
  void find_links(const std::vector<DataParameter>& copies);
  ConstBuffer gradient_of_copy(const Link& link, Pass<T>& pass);

  CallGroup pipeline_;
  DataParallel* dense_;
  ParameterCopies copies_;
  std::vector<Link> links_;  // of this rank, in the order that all ranks have
};

extern template class StageCopies<float>;
extern template class StageCopies<double>;

}  // namespace sinew::parallel
