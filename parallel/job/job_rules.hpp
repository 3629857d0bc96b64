#pragma once

#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/common/violation.hpp>
#include <sinew/parallel/job/engine_facts.hpp>
#include <sinew/parallel/job/job_config.hpp>

namespace sinew::parallel {

/// All rules that a job of so many ranks would break. Empty: the job can be made. The rules of layout_rules.hpp come
/// first, then the rules below. A rule is not judged if it depends on another rule that is broken.
///   engine_axes          The engine can be cut along every axis larger than 1.
///   engine_parts         There are at most as many tensor-parallel ranks as the engine has parts: attention heads.
///   engine_context       There are at most as many context-parallel ranks as a sample has parts: positions.
///   expert_parts         There are at most as many ep ranks as experts, and as many etp ranks as parts of an expert.
///   expert_tokens        With experts, tensor-parallel ranks have rows of their own (sequence parallelism), because
///                        each token is routed once.
///   expert_replicas      Replicas divide the ranks that have copies of an expert.
///   context_levels       cp has at most two levels. At most as many ranks share heads as a tensor-parallel rank has
///                        heads.
///   pipeline             There are at most as many stages as the engine has blocks.
///   schedule             The schedule is known, or is a file for this pipeline. It has virtual stages only if it can.
///                        It is proved. If it makes gradients of weights later, recompute is none. If it recomputes,
///                        recompute is selective or full. It gathers and sums stages only if the engine does that.
///   sequence_parallel    The engine can do it, and there are at least two tensor-parallel ranks.
///   decomposed           Only with sequence parallelism.
///   zero                 0, 1, 2 or 3.
///   replicas             1 or more. Replicas divide the data-parallel ranks.
///   replicas_shard       More than one only if parameters are sharded: zero 3.
///   precision_parameter  f64, f32, bf16 or f16.
///   precision_gradient   The parameters' type, or f32 for parameters of 16 bits.
///   precision_output     The type in which the engine computes (f64; f32 for all others), or bf16.
///   global_batch         1 or more, and a multiple of the data-parallel ranks.
///   micro_batches        1 or more. They divide a rank's part of the global batch.
///   reshard              After the backward pass only if parameters are sharded (zero 3) and there is one stage.
///   prefetch             The bytes are 0 or more. There is a limit only if something is gathered or scattered (zero 2,
///                        3). In a pipeline there is one only if the engine takes actions on stages.
///   stage_actions        If data parallelism follows the schedule, prefetch_bytes are enough for some way of sharding.
///                        The schedule's own actions suit the row. With zero 3 stages are unsharded when they compute.
///                        With zero 0 and 1 each is reduced once.
///   codec                Encoded gradients are f32, and need not be reproducible.
///   error_feedback       Only with a codec.
///   weights              int8 only if parameters are sharded (zero 3). Not with layout_invariant.
///   int4_gradients       Likewise. Not with a codec.
///   near_ranks           1 or more. More than one only if parameters are sharded. They divide the ranks that shard.
///   determinism          layout_invariant only if the engine has such sums.
///   invariant_axes       layout_invariant: tp, cp and data-parallel ranks are powers of two. At most as many of them
///                        share layers and heads, or samples, as the engine has leaf blocks. At most 64 sum gradients.
///   invariant_batch      layout_invariant: the global batch is a power of two.
///   invariant_rows       layout_invariant: not decomposed.
///   invariant_precision  layout_invariant: gradients do not have 16 bits.
///   memory               The predicted memory of a rank is at most memory_bytes.
SINEW_API std::vector<Violation> violations(int ranks, const JobConfig& config, const EngineFacts& engine);

/// Errors: InvalidArgument: "job of 6 ranks breaks 2 rules:" and a line for each, as to_string.
SINEW_API void require_no_violations(int ranks, const JobConfig& config, const EngineFacts& engine);

}  // namespace sinew::parallel
