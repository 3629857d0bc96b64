#pragma once

// A transformer as far as memory and time depend on it. The room holds shapes of models, by name or from JSON, and the
// weights and activations that follow. It may include the room `job` for its configuration, tensor parallelism for cuts
// of heads, and placements.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/core/base/export.hpp>

namespace sinew::parallel {

/// The shape of a transformer, as far as memory and time depend on it: GPT, Llama, and mixtures of experts (Mixtral,
/// DeepSeek). Plain data.
/// Units: elements, except for counts of layers, heads and experts.
struct ModelShape {
  std::string name;
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t key_value_heads = 0;  ///< 0: each query head has its own
  std::int64_t head_width = 0;       ///< 0: hidden / heads
  std::int64_t feed_forward = 0;     ///< the inner width of an MLP
  bool gated = false;                ///< three matrices: SwiGLU
  std::int64_t vocabulary = 0;
  std::int64_t context = 0;  ///< tokens of a sequence
  bool tied = false;         ///< the head uses the table of the tokens
  bool learned_positions = false;
  bool biases = false;      ///< all matrices except the head have a bias
  bool layer_norm = false;  ///< a norm has a weight and a bias; false: a weight only
  bool dropout = false;     ///< applied after attention and MLP; the masks are kept
  // A mixture of experts; 0 experts: none.
  std::int64_t experts = 0;
  std::int64_t top_k = 0;           ///< experts that see a token
  std::int64_t shared_experts = 0;  ///< experts that see every token
  std::int64_t expert_feed_forward = 0;
  std::int64_t dense_layers = 0;  ///< the first layers, which have an MLP instead of experts
  bool router_bias = false;       ///< the router has a bias for each expert, to balance the experts
  // Latent attention (MLA); 0: there is none.
  std::int64_t query_rank = 0;  ///< 0: queries are made directly
  std::int64_t key_value_rank = 0;
  std::int64_t rope_width = 0;   ///< rotary part of a head, in addition to head_width; all heads share one rotary key
  std::int64_t value_width = 0;  ///< of a head's values; 0: head_width

  std::int64_t shared_heads() const noexcept { return key_value_heads > 0 ? key_value_heads : heads; }
  std::int64_t width_of_head() const noexcept { return head_width > 0 || heads == 0 ? head_width : hidden / heads; }
  /// The widths of a head's queries and keys, and of its values.
  std::int64_t key_width() const noexcept { return width_of_head() + rope_width; }
  std::int64_t width_of_value() const noexcept { return value_width > 0 ? value_width : width_of_head(); }
  bool is_latent() const noexcept { return key_value_rank > 0; }
  bool has_experts(std::int64_t layer) const noexcept { return experts > 0 && layer >= dense_layers; }
  std::int64_t expert_layers() const noexcept { return experts > 0 ? layers - dense_layers : 0; }

  friend bool operator==(const ModelShape&, const ModelShape&) = default;
};

/// Everything that is wrong with the shape, such as "top_k: 9, expected 1 to experts, which are 8". Empty: nothing.
SINEW_API std::vector<std::string> faults_of(const ModelShape& model);

}  // namespace sinew::parallel
