#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/planner/model/model_shape.hpp>

namespace sinew::parallel {

/// Which part of a layer's weights: of tensor-parallel ranks this one's, and of all experts one of `ep` equal shares.
struct WeightPart {
  int tp_rank = 0;
  int tp = 1;
  int ep = 1;
};

/// A weight, or what a rank has of it.
struct Weight {
  std::string name;
  std::int64_t elements = 0;
  std::int64_t multiplied = 0;  ///< elements that one token is multiplied by; of vectors and tables 0
  bool of_experts = false;      ///< of the routed ones, which expert-parallel ranks share
};

/// Matrices are cut over tensor-parallel ranks by heads and by columns of the MLP, as even as can be; norms, routers
/// and what leads into latent spaces are whole on each; experts are not cut, but spread.
/// Shape:  a layer in 0 .. layers - 1.
/// Source: Shoeybi et al., Megatron-LM, arXiv 1909.08053; latent attention: DeepSeek-AI, arXiv 2405.04434.
SINEW_API std::vector<Weight> layer_weights(const ModelShape& model, std::int64_t layer, const WeightPart& part = {});
/// Tables of tokens, which are cut by tokens, and positions.
SINEW_API std::vector<Weight> input_weights(const ModelShape& model, const WeightPart& part = {});
/// The last norm and the head; of tied embeddings `holds_table` says whether the head's table is held here, not again.
SINEW_API std::vector<Weight> output_weights(const ModelShape& model, const WeightPart& part = {},
                                             bool holds_table = false);

SINEW_API std::int64_t elements_of(const std::vector<Weight>& weights) noexcept;

/// Of the whole model: 124,439,808 for gpt2.
SINEW_API std::int64_t parameter_count(const ModelShape& model);
/// Of those that one token uses: all but the experts that do not see it.
SINEW_API std::int64_t active_parameter_count(const ModelShape& model);

/// Of one token, forward and backward: 6 for each element that it is multiplied by, and attention to all tokens of a
/// sequence, masked or not, as such figures are usually given: 12 layers * hidden * sequence where heads make up the
/// hidden width.
/// Source: Chowdhery et al., PaLM, arXiv 2204.02311, appendix B; Narayanan et al., arXiv 2104.04473, appendix.
SINEW_API double model_flops_of_token(const ModelShape& model, std::int64_t sequence);

}  // namespace sinew::parallel
