#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/core/base/export.hpp>

namespace sinew::parallel {

/// What a transformer is made of, as far as memory and time depend on it: GPT, Llama, mixtures of experts (Mixtral,
/// DeepSeek). Plain data.
/// Units: elements, but for what counts layers, heads, experts.
struct ModelShape {
  std::string name;
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t key_value_heads = 0;  ///< that query heads share; 0: each has its own
  std::int64_t head_width = 0;       ///< 0: hidden / heads
  std::int64_t feed_forward = 0;     ///< between the two matrices of an MLP
  bool gated = false;                ///< three matrices: SwiGLU
  std::int64_t vocabulary = 0;
  std::int64_t context = 0;  ///< tokens of a sequence
  bool tied = false;         ///< the head is the table of tokens
  bool learned_positions = false;
  bool biases = false;      ///< of all matrices but the head
  bool layer_norm = false;  ///< a norm has a weight and a bias; else a weight alone
  bool dropout = false;     ///< behind attention and MLP, whose masks are kept
  // A mixture of experts; 0 experts: none.
  std::int64_t experts = 0;
  std::int64_t top_k = 0;           ///< experts that see a token
  std::int64_t shared_experts = 0;  ///< that see every token
  std::int64_t expert_feed_forward = 0;
  std::int64_t dense_layers = 0;  ///< the first ones, which have an MLP instead
  bool router_bias = false;       ///< per expert, to balance them
  // Latent attention (MLA); 0: there is none.
  std::int64_t query_rank = 0;  ///< 0: queries are made directly
  std::int64_t key_value_rank = 0;
  std::int64_t rope_width = 0;   ///< of a head, beside head_width; one key for all heads
  std::int64_t value_width = 0;  ///< of a head's values; 0: head_width

  std::int64_t shared_heads() const noexcept { return key_value_heads > 0 ? key_value_heads : heads; }
  std::int64_t width_of_head() const noexcept { return head_width > 0 || heads == 0 ? head_width : hidden / heads; }
  /// Of a head's queries and keys, and of its values.
  std::int64_t key_width() const noexcept { return width_of_head() + rope_width; }
  std::int64_t width_of_value() const noexcept { return value_width > 0 ? value_width : width_of_head(); }
  bool is_latent() const noexcept { return key_value_rank > 0; }
  bool has_experts(std::int64_t layer) const noexcept { return experts > 0 && layer >= dense_layers; }
  std::int64_t expert_layers() const noexcept { return experts > 0 ? layers - dense_layers : 0; }

  friend bool operator==(const ModelShape&, const ModelShape&) = default;
};

/// Everything that is wrong with it: "top_k: 9, expected 1 to experts, which are 8". Empty: nothing.
SINEW_API std::vector<std::string> faults_of(const ModelShape& model);

}  // namespace sinew::parallel
