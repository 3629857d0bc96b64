#pragma once

#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/common/violation.hpp>
#include <sinew/parallel/job/engine_facts.hpp>
#include <sinew/parallel/job/job_config.hpp>

namespace sinew::parallel {

/// All rules that a job of so many ranks would break; none: it can be made. Those of layout_rules.hpp first, then
///   engine_axes          the engine can be cut along every axis larger than 1
///   engine_parts         no more tensor-parallel ranks than the engine has parts: attention heads
///   engine_context       no more context-parallel ranks than a sample has parts: positions of a sequence
///   expert_parts         no more ranks than experts, nor than parts of one
///   expert_tokens        with experts tensor-parallel ranks have rows of their own (sequence parallelism), as each
///                        token is routed once
///   expert_replicas      replicas divide the ranks that have copies of an expert
///   context_levels       cp has two levels at most, and no more ranks share heads than a tensor-parallel rank has
///   pipeline             no more stages than the engine has blocks
///   schedule             is known, or a file of this pipeline, has virtual stages only where it can, and is proved;
///                        one that makes gradients of weights later goes with recompute none, one that recomputes
///                        with another; stages are gathered and summed by one only where the engine does that
///   sequence_parallel    where the engine can, and with two tensor-parallel ranks or more
///   decomposed           with sequence parallelism
///   zero                 0, 1, 2 or 3
///   replicas             1 or more, and divide the data-parallel ranks
///   replicas_shard       more than one only where parameters are sharded: zero 3
///   precision_parameter  f64, f32, bf16 or f16
///   precision_gradient   the parameters' type, or f32 where these have 16 bits
///   precision_output     the type that is computed in (f64; f32 for all others), or bf16
///   global_batch         1 or more, a multiple of the data-parallel ranks
///   micro_batches        1 or more, divide a rank's part of the global batch
///   reshard              after the backward pass only where parameters are sharded: zero 3, and there is one stage
///   prefetch             bytes are 0 or more, and a limit only where something is gathered or scattered: zero 2, 3;
///                        with one stage
///   codec                what travels coded is f32, and not reproducible to the bit
///   error_feedback       goes with a codec
///   determinism          layout_invariant where the engine has such sums
///   invariant_axes       layout_invariant: tp, cp and data-parallel ranks are powers of two, and no more of them share
///                        layers and heads, or samples, than the engine has leaf blocks for; 64 sum gradients at most
///   invariant_batch      layout_invariant: the global batch is a power of two
///   invariant_rows       layout_invariant: not decomposed
///   invariant_precision  layout_invariant: gradients are not of 16 bits
///   memory               what a rank is predicted to take is no more than memory_bytes
/// A rule about what another one leaves open is not judged.
SINEW_API std::vector<Violation> violations(int ranks, const JobConfig& config, const EngineFacts& engine);

/// Errors: InvalidArgument: "job of 6 ranks breaks 2 rules:" and a line for each, as to_string.
SINEW_API void require_no_violations(int ranks, const JobConfig& config, const EngineFacts& engine);

}  // namespace sinew::parallel
