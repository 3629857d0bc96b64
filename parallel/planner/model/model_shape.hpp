#pragma once

// A transformer as far as memory and time depend on it. The room holds shapes of models, by name or from JSON, and the
// weights and activations that follow. It may include the room `job` for its configuration, tensor parallelism for cuts
// of heads, and placements.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/core/base/export.hpp>

namespace sinew::parallel {

/// The shape of a model, as far as memory and time depend on it. The model is a transformer such as GPT or Llama, a
/// mixture of experts such as Mixtral, or Mamba with or without layers of attention. Plain data.
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
  // Layers with a state space in the place of attention (ScanModule, StateSpaceModule). Layers have an MLP behind it if
  // there is a feed_forward.
  std::int64_t mamba = 0;             ///< 1: Mamba, by channels. 2: Mamba-2, by heads. 0: all layers have attention
  std::int64_t attention_every = 0;   ///< with mamba: every so-many-th layer has attention; 0: none has
  std::int64_t state_inner = 0;       ///< channels; 0: twice hidden
  std::int64_t states = 0;            ///< of each channel; 0: 16 of Mamba, 128 of Mamba-2
  std::int64_t taps = 0;              ///< tokens that the convolution looks at; 0: 4
  std::int64_t step_rank = 0;         ///< of Mamba; 0: hidden / 16, rounded up
  std::int64_t state_head_width = 0;  ///< of Mamba-2; 0: 64
  std::int64_t state_groups = 0;      ///< of heads that share b and c, of Mamba-2; 0: 1

  std::int64_t shared_heads() const noexcept { return key_value_heads > 0 ? key_value_heads : heads; }
  std::int64_t width_of_head() const noexcept { return head_width > 0 || heads == 0 ? head_width : hidden / heads; }
  /// The widths of a head's queries and keys, and of its values.
  std::int64_t key_width() const noexcept { return width_of_head() + rope_width; }
  std::int64_t width_of_value() const noexcept { return value_width > 0 ? value_width : width_of_head(); }
  bool is_latent() const noexcept { return key_value_rank > 0; }
  bool has_experts(std::int64_t layer) const noexcept { return experts > 0 && layer >= dense_layers; }
  std::int64_t expert_layers() const noexcept { return experts > 0 ? layers - dense_layers : 0; }

  bool has_attention(std::int64_t layer) const noexcept {
    return mamba == 0 || (attention_every > 0 && (layer + 1) % attention_every == 0);
  }
  bool has_mlp(std::int64_t layer) const noexcept { return has_experts(layer) || feed_forward > 0; }
  std::int64_t attention_layers() const noexcept {
    if (mamba == 0) return layers;
    return attention_every > 0 ? layers / attention_every : 0;
  }
  std::int64_t channels() const noexcept { return state_inner > 0 ? state_inner : 2 * hidden; }
  std::int64_t states_of_channel() const noexcept { return states > 0 ? states : mamba == 2 ? 128 : 16; }
  std::int64_t taps_of_channel() const noexcept { return taps > 0 ? taps : 4; }
  std::int64_t width_of_steps() const noexcept { return step_rank > 0 ? step_rank : (hidden + 15) / 16; }
  std::int64_t width_of_state_head() const noexcept { return state_head_width > 0 ? state_head_width : 64; }
  std::int64_t state_heads() const noexcept { return channels() / width_of_state_head(); }
  std::int64_t groups_of_heads() const noexcept { return state_groups > 0 ? state_groups : 1; }
  /// The kind of a layer, 0 to 3. Layers of one kind have the same parts.
  std::size_t kind_of(std::int64_t layer) const noexcept {
    return (has_experts(layer) ? 1U : 0U) + (has_attention(layer) ? 2U : 0U);
  }

  friend bool operator==(const ModelShape&, const ModelShape&) = default;
};

/// Computes a value once for each kind of layer. Layers of one kind have the same parts.
template <class T>
class ByLayerKind {
 public:
  /// compute(layer): called for the first layer of each kind.
  template <class Compute>
  const T& of(const ModelShape& model, std::int64_t layer, const Compute& compute) {
    std::optional<T>& known = known_[model.kind_of(layer)];
    if (!known) known.emplace(compute(layer));
    return *known;
  }

 private:
  std::array<std::optional<T>, 4> known_;
};

/// Everything that is wrong with the shape, such as "top_k: 9, expected 1 to experts, which are 8". Empty: nothing.
SINEW_API std::vector<std::string> faults_of(const ModelShape& model);

}  // namespace sinew::parallel
