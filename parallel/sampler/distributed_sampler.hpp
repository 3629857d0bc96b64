#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/sampler/keyed_permutation.hpp>
#include <sinew/parallel/sampler/sampler_state.hpp>

namespace sinew::parallel {

/// Selects what happens to the samples at the end of an epoch if they are fewer than a global batch.
enum class LastBatch : std::uint8_t {
  Drop,    ///< they are not used in this epoch
  Pad,     ///< the first samples of the epoch's order fill the batch up
  Uneven,  ///< the batch is smaller; ranks may have unequal numbers of samples, or none (Join)
};

struct SamplerOptions {
  std::int64_t samples = 0;       ///< of the dataset: their numbers are 0 to samples - 1
  std::int64_t global_batch = 0;  ///< samples of a step, of all ranks together
  std::uint64_t seed = 0;
  bool shuffle = true;
  LastBatch last = LastBatch::Drop;
};

/// One rank's part of a global batch.
struct SampleBatch {
  std::vector<std::int64_t> samples{};  ///< numbers of samples, in the order of the epoch
  std::int64_t padding = 0;  ///< so many of these, the last ones, fill the batch up: give them the weight 0 in the loss
  std::int64_t of_all = 0;   ///< samples of the global batch, without padding
  SamplerState after{};      ///< for a checkpoint that is saved after the step of this batch
};

/// Gives each rank the numbers of its samples. The order of an epoch is a permutation that depends on seed and epoch
/// alone. A global batch is the next `global_batch` samples of this order, and each rank takes an equal part of it. So
/// the batches do not depend on the number of ranks, and a job that resumes in the middle of an epoch goes on with the
/// samples that would have come next. Nothing is sent.
/// Where the batch is not a multiple of the ranks, the first ranks have one sample more: use WeightedLoss.
/// Cost:   as KeyedPermutation, for each sample of this rank. No memory of the size of the dataset.
/// Source: the interface is that of torch.utils.data.DistributedSampler.
class SINEW_API DistributedSampler {
 public:
  /// rank, ranks: this rank's place among the data-parallel ranks, such as mesh.index("dp") and mesh.size("dp").
  /// Errors: InvalidArgument for no samples, a batch below 1, and a rank that is not below `ranks`. Also for a batch of
  ///         more samples than there are, with LastBatch::Drop.
  DistributedSampler(const SamplerOptions& options, int rank, int ranks);

  /// This rank's part of the next batch. nullopt at the end of the epoch, on all ranks alike.
  std::optional<SampleBatch> next();
  /// Batches of this epoch that next() has not returned.
  std::int64_t batches_left() const noexcept;
  /// Begins an epoch with its first batch. `epoch` is 0 or more.
  /// Errors: InvalidArgument for another epoch.
  void set_epoch(std::int64_t epoch);

  /// The state after the batch that next() returned last. A program that asks for batches ahead of its steps saves
  /// SampleBatch::after instead.
  const SamplerState& state() const noexcept { return state_; }
  /// Goes on where a sampler was that had this state, whatever its number of ranks. The seed is that of the state. The
  /// batch may be another one: it begins with the next sample.
  /// Errors: InvalidArgument for a state that require_sound() refuses, and for one of another number of samples or
  ///         another kind of order.
  void restore(const SamplerState& state);

 private:
  void make_order();

  SamplerOptions options_;
  int rank_, ranks_;
  SamplerState state_;
  std::optional<KeyedPermutation> order_;  // of the epoch; empty: not shuffled
};

}  // namespace sinew::parallel
