#pragma once

#include <cstdint>
#include <string>

namespace sinew::parallel {}

namespace gpt {

namespace sp = sinew::parallel;

/// Experts in the place of a block's MLP. What it says changes what is computed, by no layout.
struct ExpertsShape {
  int count = 0;                  ///< of a block; 0: no block has experts
  int every = 1;                  ///< 2: every second block has them, 1: all
  int top_k = 2;                  ///< of them for each token
  bool sigmoid = false;           ///< scores; else softmax
  int groups = 1, chosen = 1;     ///< sp::RouterShape
  double capacity = 0;            ///< sp::CapacityShape::factor; 0: nothing is dropped
  bool drop_by_position = false;  ///< the last ones, else those with the smallest gates
  double auxiliary = 0;           ///< coefficient of the balance loss of each sequence
  double z = 0;                   ///< of the z loss
  double bias_rate = 0;           ///< by which biases follow the load in each step; 0: there are none
};

/// What a model is: a GPT-2 over bytes, whose tokens are the 256 values of a byte; some of its blocks may have a
/// selective scan (Mamba) in the place of attention.
struct Shape {
  int layers = 4;
  int heads = 4;
  int width = 128;          ///< elements of an activation; heads divide it
  int context = 64;         ///< bytes of a sequence
  int key_value_heads = 0;  ///< that query heads share; 0: each has its own
  int mamba_every = 0;      ///< 2: every second block has a scan, 1: all, 0: none
  bool mamba2 = false;      ///< scans are those of Mamba-2, by heads; else of Mamba-1, by channels
  bool sinks = false;       ///< attention heads have a learnt score that every query sees, without a value
  double dropout = 0;       ///< of what a block adds to the residual stream
  /// A byte that ends a document: attention does not look across it, and what follows it is not predicted. -1: a
  /// sequence is one document.
  int document_end = -1;
  ExpertsShape experts{};

  int head_width() const noexcept { return width / heads; }
  int shared_heads() const noexcept { return key_value_heads > 0 ? key_value_heads : heads; }
  /// Of a scan: twice the width; what its step sizes are made of.
  std::int64_t channels() const noexcept { return 2 * std::int64_t{width}; }
  std::int64_t step_rank() const noexcept { return (width + 15) / 16; }
  bool has_scan(int block) const noexcept { return mamba_every > 0 && block % mamba_every == mamba_every - 1; }
  bool has_scans() const noexcept { return mamba_every > 0 && mamba_every <= layers; }
  bool has_experts(int block) const noexcept {
    return experts.count > 0 && experts.every > 0 && block % experts.every == experts.every - 1;
  }
  bool has_experts() const noexcept { return experts.count > 0 && experts.every > 0 && experts.every <= layers; }
  /// The block of layer `layer` among those with experts.
  int block_with_experts(int layer) const noexcept { return (layer + 1) * experts.every - 1; }
  int layers_with_experts() const noexcept { return has_experts() ? layers / experts.every : 0; }
  /// Elements inside an MLP, or an expert.
  std::int64_t inner() const noexcept { return 4 * std::int64_t{width}; }
  bool has_attention() const noexcept { return mamba_every != 1; }
};

/// A line, equal where shapes are: "layers 4, heads 4, width 128, ...".
std::string to_string(const Shape& shape);

inline constexpr int kVocabulary = 256;
inline constexpr std::int64_t kScanStates = 16, kScanTaps = 4;  // as Mamba has them

/// Errors: InvalidArgument that lists everything that is wrong, with the nearest number of heads where they do not fit.
void require_shape(const Shape& shape);

}  // namespace gpt
