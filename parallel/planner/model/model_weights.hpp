#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/planner/model/model_shape.hpp>

namespace sinew::parallel {

/// A part of a layer's weights: that of one tensor-parallel rank, and one of `ep` equal shares of all experts.
struct WeightPart {
  int tp_rank = 0;
  int tp = 1;
  int ep = 1;
};

/// A weight, or the part of it that a rank has.
struct Weight {
  std::string name;
  std::int64_t elements = 0;
  std::int64_t multiplied = 0;  ///< elements by which one token is multiplied; 0 for vectors and tables
  bool of_experts = false;      ///< of routed experts, which expert-parallel ranks share
};

/// The weights of a layer that one rank has. Matrices are cut over tensor-parallel ranks by heads and by columns of the
/// MLP, as evenly as possible. Norms, routers and projections into latent spaces are whole on each rank. Experts are
/// spread over ranks, not cut.
/// Shape:  a layer in 0 .. layers - 1.
/// Source: Shoeybi et al., Megatron-LM, arXiv 1909.08053; latent attention: DeepSeek-AI, arXiv 2405.04434.
///         Mamba: Gu & Dao, arXiv 2312.00752. Mamba-2: Dao & Gu, arXiv 2405.21060.
SINEW_API std::vector<Weight> layer_weights(const ModelShape& model, std::int64_t layer, const WeightPart& part = {});
/// The table of tokens, which is cut by tokens, and the table of positions.
SINEW_API std::vector<Weight> input_weights(const ModelShape& model, const WeightPart& part = {});
/// The last norm and the head. For tied embeddings, `holds_table` says whether this rank already holds the table; it is
/// then not counted again.
SINEW_API std::vector<Weight> output_weights(const ModelShape& model, const WeightPart& part = {},
                                             bool holds_table = false);

SINEW_API std::int64_t elements_of(const std::vector<Weight>& weights) noexcept;

/// All parameters of the model: 124,439,808 for gpt2.
SINEW_API std::int64_t parameter_count(const ModelShape& model);
/// The parameters that one token uses: all except the experts that do not see the token.
SINEW_API std::int64_t active_parameter_count(const ModelShape& model);

/// Operations for one token, forward and backward: 6 for each element by which the token is multiplied, and attention
/// to all tokens of a sequence. As is usual for such figures, attention is counted as if it were not masked: 12 layers
/// * hidden * sequence if the heads make up the hidden width. A state space takes a multiplication and an addition for
/// each of its states, to change the state and to read it, and three times as many with the backward pass.
/// Source: Chowdhery et al., PaLM, arXiv 2204.02311, appendix B; Narayanan et al., arXiv 2104.04473, appendix.
SINEW_API double model_flops_of_token(const ModelShape& model, std::int64_t sequence);

}  // namespace sinew::parallel
