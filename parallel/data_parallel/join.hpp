#pragma once

#include <cstdint>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/data_parallel/data_parallel.hpp>

namespace sinew::parallel {

/// Selects what Join::next() does if some ranks have a batch and others have none.
enum class UnevenInputs : std::uint8_t {
  Shadow,  ///< ranks without a batch make a shadow pass
  Refuse,  ///< it throws on all ranks
};

/// Uneven inputs: ranks that have no batch take part in the exchanges of those that have one, until no rank has any.
///
///     Join join(data);
///     while (join.next(batch.has_value())) {
///       if (batch) { ... the passes of the batch ...; } else { shadow_pass(data); }
///       const auto owned = data.finish_backward();
///       optimizer.update(owned, total(ranks, loss).scale());       // without a batch, loss is {0, 0}
///       data.updated();
///     }
///
/// Each rank decides in each step. A rank without a batch may have one in a later step. With several passes in a step,
/// call next() before each of them, and make the shadow passes within the same scopes, such as no_sync().
/// Thread:   the World's.
/// Lifetime: ends before `data`.
/// Source:   torch.distributed.algorithms.Join. There, the program does not see the shadow passes.
class SINEW_API Join {
 public:
  /// Errors: InvalidArgument if gradients are averaged over ranks, because ranks without a batch would count in the
  ///         mean: expected DataParallelOptions::gradients of ReduceOp::Sum.
  explicit Join(DataParallel& data, UnevenInputs uneven = UnevenInputs::Shadow);

  /// Returns whether any rank has a batch. Collective along the row's axes.
  /// has_batch: the same on ranks that work on one batch together, such as those of tensor parallelism.
  /// Errors: InvalidArgument on all ranks alike: with UnevenInputs::Refuse, naming the first rank without a batch; and
  ///         if a pipeline makes the passes, because its stages wait for each microbatch of each other.
  /// Cost:   an all_reduce of 8 bytes along each axis of the row.
  bool next(bool has_batch);
  /// The number of ranks that said in the last next() that they have a batch.
  int ranks_with_batch() const noexcept { return with_batch_; }

 private:
  DataParallel* data_;
  UnevenInputs uneven_;
  std::int64_t calls_ = 0;
  int with_batch_ = 0;
};

/// Makes the calls of a forward and a backward pass, and adds nothing to gradients. It takes the place of the passes of
/// a batch: finish_backward() follows. Within forward_only() there is no backward pass, and finish_forward() follows.
/// Errors: as the calls of DataParallel.
/// Cost:   the exchanges of the passes.
SINEW_API void shadow_pass(DataParallel& data);

}  // namespace sinew::parallel
