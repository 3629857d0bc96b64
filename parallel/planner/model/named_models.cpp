#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/planner/model/model_shape.hpp>
#include <sinew/parallel/planner/model/named_models.hpp>

namespace sinew::parallel {
namespace {

/// What GPT-2 and GPT-3 have in common: layer norms, biases, tied embeddings, learned positions, dropout, MLPs of four
/// times the width, a vocabulary of 50,257 (Radford et al., Language Models are Unsupervised Multitask Learners, 2019).
ModelShape gpt(std::string name, std::int64_t context, std::int64_t layers, std::int64_t hidden, std::int64_t heads) {
  return {.name = std::move(name),
          .layers = layers,
          .hidden = hidden,
          .heads = heads,
          .feed_forward = 4 * hidden,
          .vocabulary = 50257,
          .context = context,
          .tied = true,
          .learned_positions = true,
          .biases = true,
          .layer_norm = true,
          .dropout = true};
}

/// Source: Dubey et al., The Llama 3 Herd of Models, arXiv 2407.21783, table 3; vocabulary and MLP of the published
///         configurations.
ModelShape llama3(std::string name, std::int64_t layers, std::int64_t hidden, std::int64_t heads,
                  std::int64_t feed_forward) {
  return {.name = std::move(name),
          .layers = layers,
          .hidden = hidden,
          .heads = heads,
          .key_value_heads = 8,
          .feed_forward = feed_forward,
          .gated = true,
          .vocabulary = 128256,
          .context = 8192};
}

/// The sizes are those of the published configurations. The vocabulary is rounded up to a multiple of 8 for Mamba, and
/// to one of 16 for Mamba-2.
/// Source: Gu & Dao, arXiv 2312.00752. Dao & Gu, arXiv 2405.21060.
ModelShape mamba(std::string name, std::int64_t version, std::int64_t layers, std::int64_t hidden) {
  return {.name = std::move(name),
          .layers = layers,
          .hidden = hidden,
          .vocabulary = version == 1 ? 50280 : 50288,
          .context = 2048,
          .tied = true,
          .mamba = version};
}

std::vector<ModelShape> all_models() {
  constexpr std::int64_t kGpt2 = 1024, kGpt3 = 2048;
  return {
      gpt("gpt2", kGpt2, 12, 768, 12),
      gpt("gpt2-medium", kGpt2, 24, 1024, 16),
      gpt("gpt2-large", kGpt2, 36, 1280, 20),
      gpt("gpt2-xl", kGpt2, 48, 1600, 25),
      // Brown et al., arXiv 2005.14165, table 2.1. There, heads times head width differ from the width for 1.3B (24
      // heads of 128), and 13B has a width of 5,140. The nearest values that fit are used here.
      gpt("gpt3-125m", kGpt3, 12, 768, 12),
      gpt("gpt3-350m", kGpt3, 24, 1024, 16),
      gpt("gpt3-760m", kGpt3, 24, 1536, 16),
      gpt("gpt3-1.3b", kGpt3, 24, 2048, 16),
      gpt("gpt3-2.7b", kGpt3, 32, 2560, 32),
      gpt("gpt3-6.7b", kGpt3, 32, 4096, 32),  // not a page
      gpt("gpt3-13b", kGpt3, 40, 5120, 40),
      gpt("gpt3-175b", kGpt3, 96, 12288, 96),
      llama3("llama3-8b", 32, 4096, 32, 14336),  // not a page
      llama3("llama3-70b", 80, 8192, 64, 28672),
      llama3("llama3-405b", 126, 16384, 128, 53248),
      // Jiang et al., arXiv 2401.04088, table 1.
      {.name = "mixtral-8x7b",
       .layers = 32,
       .hidden = 4096,  // not a page
       .heads = 32,
       .key_value_heads = 8,
       .gated = true,
       .vocabulary = 32000,
       .context = 32768,
       .experts = 8,
       .top_k = 2,
       .expert_feed_forward = 14336},
      // DeepSeek-AI, arXiv 2412.19437, section 4.2; without the module that predicts a second token. It was trained on
      // sequences of 4 Ki tokens.
      {.name = "deepseek-v3",
       .layers = 61,
       .hidden = 7168,
       .heads = 128,
       .head_width = 128,
       .feed_forward = 18432,
       .gated = true,
       .vocabulary = 129280,
       .context = 4096,  // not a page
       .experts = 256,
       .top_k = 8,
       .shared_experts = 1,
       .expert_feed_forward = 2048,
       .dense_layers = 3,
       .router_bias = true,
       .query_rank = 1536,
       .key_value_rank = 512,
       .rope_width = 64,
       .value_width = 128},
      mamba("mamba-130m", 1, 24, 768),
      mamba("mamba-2.8b", 1, 64, 2560),
      mamba("mamba2-130m", 2, 24, 768),
      mamba("mamba2-2.7b", 2, 64, 2560),
  };
}

}  // namespace

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const ModelShape& m : all_models()) names.push_back(m.name);
  return names;
}

ModelShape named_model(std::string_view name) {
  for (ModelShape& m : all_models()) {
    if (m.name == name) return std::move(m);
  }
  throw Error(Code::InvalidArgument,
              fmt::format("model '{}': expected a JSON file, or one of {}", name, fmt::join(model_names(), ", ")));
}

}  // namespace sinew::parallel
