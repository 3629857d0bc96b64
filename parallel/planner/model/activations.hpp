#pragma once

#include <cstdint>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/job/job_config.hpp>
#include <sinew/parallel/planner/model/model_shape.hpp>

namespace sinew::parallel {

/// How attention is computed. Stored: scores, their softmax and its dropout are kept, and selective recomputation makes
/// them again. Blocks: they never are in memory as a whole (context/block_attention.hpp), and selective recomputation
/// makes norms and the MLP's activation again.
enum class AttentionMemory : std::uint8_t { Stored, Blocks };

/// What goes through a layer at a time on one rank.
struct LayerInput {
  std::int64_t samples = 1;  ///< of a micro-batch
  std::int64_t sequence = 1;
  int tp = 1, cp = 1;
  bool sequence_parallel = false;  ///< rows between layers are cut over tp, too
  AttentionMemory attention = AttentionMemory::Blocks;
};

/// What one rank keeps of a layer from its forward to its backward pass, and what it makes again for that.
/// Units: bytes; elements of 16 bits, masks of dropout of 8, logits of 32.
struct LayerActivations {
  double kept = 0;
  double made_again = 0;  ///< there at the time of one layer's backward pass
};

/// Source: Korthikanti et al., arXiv 2205.05198, table 2, from which it follows item by item for a GPT with stored
///         attention: with s sequence, b samples, h hidden, a heads, t tensor-parallel ranks, per layer
///           none, tensor parallel        sbh (10 + 24/t + 5as/(ht))
///           none, sequence parallel      sbh/t (34 + 5as/h)
///           selective                    sbh 34/t
///           full                         2sbh, of which sequence-parallel ranks keep 1/t
SINEW_API LayerActivations layer_activations(const ModelShape& model, std::int64_t layer, const LayerInput& input,
                                             Recompute recompute);
/// Of the embeddings, for each micro-batch that is under way: the mask of their dropout.
SINEW_API double input_activations(const ModelShape& model, const LayerInput& input);
/// Of the last norm, the head and the logits, for each micro-batch between its forward and its backward pass there.
SINEW_API double output_activations(const ModelShape& model, const LayerInput& input);
/// Of what goes from stage to stage, one rank's part.
SINEW_API double boundary_bytes(const ModelShape& model, const LayerInput& input);

}  // namespace sinew::parallel
