#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <sinew/core/base/export.hpp>
#include <sinew/core/call/collective.hpp>
#include <sinew/core/dtype.hpp>
#include <sinew/core/numeric/codec.hpp>
#include <sinew/parallel/common/recompute.hpp>
#include <sinew/parallel/data_parallel/plan/row.hpp>
#include <sinew/parallel/data_parallel/plan/step_plan.hpp>
#include <sinew/parallel/mesh/layout_sizes.hpp>

namespace sinew::parallel {

/// "none", "selective", "full".
SINEW_API std::string_view name_of(Recompute recompute) noexcept;

/// Element types of mixed precision. For parameters of 16 bits the optimizer keeps values in f32.
/// Source: parameter, reduce and output dtype of PyTorch's FSDP2.
struct Precision {
  DType parameter = DType::F32;  ///< of parameters as they are held, gathered and computed with
  DType gradient = DType::F32;   ///< in which gradients are added up, and summed over ranks
  DType output = DType::F32;     ///< of what a unit hands to the next one
  friend bool operator==(const Precision&, const Precision&) = default;
};

struct ProvedSchedule;

/// One configuration of a training job, as its user states it. job_rules.hpp says what is wrong with it.
/// Units: batches in samples (sequences).
struct JobConfig {
  LayoutSizes layout{};
  int zero = 0;                    ///< 0: ddp; 1, 2, 3: what data-parallel ranks shard
  bool sequence_parallel = false;  ///< tensor-parallel ranks also share rows between layers
  bool decomposed = false;         ///< rows are sent while others are multiplied (LinearShape::decomposed)
  /// The schedule of a pipeline: the name of a generator (pipeline/generators/generators.hpp), or a CSV file.
  std::string schedule = "1f1b";
  int virtual_stages = 1;  ///< stages on each rank of the pipeline; V-shaped schedules have 2
  /// The proved schedule of these settings. null: whoever needs the schedule makes and proves it.
  std::shared_ptr<const ProvedSchedule> proved{};
  /// The number of copies of the shards that data-parallel ranks hold (hsdp). 1: sharded over all of them.
  int replicas = 1;
  Precision precision{};
  std::int64_t global_batch = 16;  ///< of one step, all ranks together
  std::int64_t micro_batches = 1;  ///< passes into which a rank cuts its part of the global batch
  Recompute recompute = Recompute::None;
  Reshard reshard = Reshard::AfterForward;
  /// DataOptions::gathered_bytes. In a pipeline whose engine takes actions on stages, the budget of a rank for gathered
  /// parameters and whole gradients (choose_sharding.hpp).
  std::int64_t prefetch_bytes = 0;
  Codec codec = Codec::None;  ///< of gradients while they are sent
  bool error_feedback = false;
  /// ZeRO++ has three parts, each for itself: `weights` int8 (qwZ), `near_ranks` above 1 (hpZ), and `int4_gradients`
  /// (qgZ). All need zero 3.
  WeightWire weights = WeightWire::Plain;  ///< of parameters while they are gathered
  bool int4_gradients = false;             ///< GradientWire::int4
  /// The data-parallel ranks of a shard's copy that are near each other, such as those of a host. They keep parameters
  /// between the passes (DataOptions::reshard_axes, if reshard is after the forward pass), and sum int4 gradients
  /// first (DataOptions::scatter_axes). Parameters of experts are not kept or summed near. 1: no ranks are near.
  int near_ranks = 1;
  Determinism determinism = Determinism::Fast;
  std::uint64_t seed = 1;
  std::int64_t memory_bytes = 0;  ///< the limit for a rank; 0: none
};

/// The ranks that see different samples: dp. 0 if the layout leaves no whole number of them.
SINEW_API int data_ranks(int ranks, const JobConfig& config) noexcept;
/// "ddp", "zero1", "zero2", "zero3", "hsdp".
SINEW_API std::string row_name(const JobConfig& config);
/// Context-parallel ranks that share heads (Ulysses): the first of two levels of cp. The others make a ring.
SINEW_API int head_sharers(const JobConfig& config) noexcept;
/// Stages of the pipeline. For an impossible configuration with more stages than an int can count, the largest int.
SINEW_API int stages(const JobConfig& config) noexcept;
/// Samples of one rank in a pass. 0 if the layout does not determine them.
SINEW_API std::int64_t samples_of_pass(int ranks, const JobConfig& config) noexcept;
/// A line for each setting. Equal for equal configurations.
SINEW_API std::string to_string(const JobConfig& config);

}  // namespace sinew::parallel
