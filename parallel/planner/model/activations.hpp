#pragma once

#include <cstdint>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/job/job_config.hpp>
#include <sinew/parallel/planner/model/model_shape.hpp>

namespace sinew::parallel {

/// The ways to compute attention. Stored: scores, their softmax and its dropout are kept, and selective recomputation
/// makes them again. Blocks: scores are never in memory as a whole (context/block_attention.hpp), and selective
/// recomputation makes norms and the MLP's activation again.
enum class AttentionMemory : std::uint8_t { Stored, Blocks };

/// The part of a layer that one rank computes at a time.
struct LayerInput {
  std::int64_t samples = 1;  ///< of a microbatch
  std::int64_t sequence = 1;
  int tp = 1, cp = 1;
  bool sequence_parallel = false;  ///< rows between layers are also cut over tp
  AttentionMemory attention = AttentionMemory::Blocks;
};

/// The activations of a layer that one rank keeps from its forward to its backward pass, or makes again for the
/// backward pass.
/// Units: bytes. Elements have 16 bits, masks of dropout 8, logits 32.
struct LayerActivations {
  double kept = 0;
  double made_again = 0;  ///< exists during one layer's backward pass
};

/// Source: Korthikanti et al., arXiv 2205.05198, table 2. For a GPT with stored attention, all items of the table
///         follow from this function. Per layer, a rank keeps these bytes (s sequence, b samples, h hidden, a heads, t
///         tensor-parallel ranks):
///           none, tensor parallel        sbh (10 + 24/t + 5as/(ht))
///           none, sequence parallel      sbh/t (34 + 5as/h)
///           selective                    sbh 34/t
///           full                         2sbh, of which sequence-parallel ranks keep 1/t
///         Layers with a state space keep the arrays that ScanModule and StateSpaceModule keep
///         (Module::kept_bytes), and those of the norm before it.
SINEW_API LayerActivations layer_activations(const ModelShape& model, std::int64_t layer, const LayerInput& input,
                                             Recompute recompute);
/// The mask of the dropout of the embeddings, for each microbatch in flight.
SINEW_API double input_activations(const ModelShape& model, const LayerInput& input);
/// Activations of the last norm, the head and the logits, for each microbatch between its forward and its backward pass
/// in the last stage.
SINEW_API double output_activations(const ModelShape& model, const LayerInput& input);
/// One rank's part of the activations that one stage sends to the next.
SINEW_API double boundary_bytes(const ModelShape& model, const LayerInput& input);

}  // namespace sinew::parallel
