#include <utility>

#include <fmt/format.h>

#include <sinew/parallel/planner/model/model_shape.hpp>

namespace sinew::parallel {
namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 31;

/// Collects the faults of a shape.
class Faults {
 public:
  void need(const char* field, std::int64_t value, std::int64_t least, std::int64_t most, const char* why = "") {
    if (value >= least && value <= most) return;
    all_.push_back(fmt::format("{}: {}, expected {} to {}{}", field, value, least, most, why));
  }
  void need_divisor(const char* field, std::int64_t value, const char* of, std::int64_t whole) {
    if (value > 0 && whole > 0 && whole % value != 0)
      all_.push_back(fmt::format("{}: {}, expected a divisor of {} {}", field, value, of, whole));
  }
  void need_none(const char* field, std::int64_t value, const char* without) {
    if (value != 0) all_.push_back(fmt::format("{}: {}, expected 0 without {}", field, value, without));
  }
  std::vector<std::string> take() { return std::move(all_); }

 private:
  std::vector<std::string> all_;
};

void judge_experts(const ModelShape& m, Faults& faults) {
  if (m.experts == 0) {
    faults.need_none("top_k", m.top_k, "experts");
    faults.need_none("shared_experts", m.shared_experts, "experts");
    faults.need_none("expert_feed_forward", m.expert_feed_forward, "experts");
    faults.need_none("dense_layers", m.dense_layers, "experts");
    return;
  }
  faults.need("experts", m.experts, 1, kMost);
  faults.need("top_k", m.top_k, 1, m.experts, ", the experts");
  faults.need("shared_experts", m.shared_experts, 0, kMost);
  faults.need("expert_feed_forward", m.expert_feed_forward, 1, kMost);
  faults.need("dense_layers", m.dense_layers, 0, m.layers, ", the layers");
}

void judge_attention(const ModelShape& m, Faults& faults) {
  faults.need("key_value_heads", m.key_value_heads, 0, kMost);
  faults.need_divisor("key_value_heads", m.key_value_heads, "heads", m.heads);
  faults.need("head_width", m.head_width, 0, kMost);
  if (m.head_width == 0) faults.need_divisor("heads", m.heads, "hidden", m.hidden);
  faults.need("query_rank", m.query_rank, 0, kMost);
  faults.need("key_value_rank", m.key_value_rank, 0, kMost);
  faults.need("rope_width", m.rope_width, 0, kMost);
  faults.need("value_width", m.value_width, 0, kMost);
  if (m.is_latent()) return;
  faults.need_none("query_rank", m.query_rank, "key_value_rank");
  faults.need_none("rope_width", m.rope_width, "key_value_rank");
}

void judge_state_space(const ModelShape& m, Faults& faults) {
  faults.need("mamba", m.mamba, 0, 2);
  if (m.mamba == 0) {
    for (const auto& [field, value] : {std::pair("attention_every", m.attention_every),
                                       {"state_inner", m.state_inner},
                                       {"states", m.states},
                                       {"taps", m.taps},
                                       {"step_rank", m.step_rank},
                                       {"state_head_width", m.state_head_width},
                                       {"state_groups", m.state_groups}})
      faults.need_none(field, value, "mamba");
    return;
  }
  faults.need("attention_every", m.attention_every, 0, m.layers, ", the layers");
  for (const auto& [field, value] : {std::pair("state_inner", m.state_inner),
                                     {"states", m.states},
                                     {"taps", m.taps},
                                     {"step_rank", m.step_rank},
                                     {"state_head_width", m.state_head_width},
                                     {"state_groups", m.state_groups}})
    faults.need(field, value, 0, kMost);
  if (m.mamba == 1) {
    faults.need_none("state_head_width", m.state_head_width, "mamba 2");
    faults.need_none("state_groups", m.state_groups, "mamba 2");
    return;
  }
  faults.need_none("step_rank", m.step_rank, "mamba 1");
  faults.need_divisor("state_head_width", m.width_of_state_head(), "state_inner", m.channels());
  faults.need_divisor("state_groups", m.groups_of_heads(), "the heads, which are", m.state_heads());
}

constexpr double kMostParameters = 1e15;

/// About how many parameters the matrices have. It is a double, because an integer could overflow.
double roughly(const ModelShape& m) {
  const auto of = [](std::int64_t n) { return static_cast<double>(n); };
  const double experts = of(m.experts + m.shared_experts) * of(m.expert_feed_forward);
  return of(m.layers) * of(m.hidden) * (4 * of(m.hidden) + 3 * of(m.state_inner) + 3 * (of(m.feed_forward) + experts)) +
         of(m.hidden) * (2 * of(m.vocabulary) + of(m.context));
}

}  // namespace

std::vector<std::string> faults_of(const ModelShape& m) {
  Faults faults;
  faults.need("layers", m.layers, 1, 1 << 14);
  faults.need("hidden", m.hidden, 1, kMost);
  const bool has_attention = m.mamba == 0 || m.attention_every > 0;
  faults.need("heads", m.heads, has_attention ? 1 : 0, 1 << 20);
  const bool has_mlp = m.mamba == 0 && (m.experts == 0 || m.dense_layers > 0);
  faults.need("feed_forward", m.feed_forward, has_mlp ? 1 : 0, kMost);
  faults.need("vocabulary", m.vocabulary, 1, kMost);
  faults.need("context", m.context, 1, kMost);
  judge_attention(m, faults);
  judge_experts(m, faults);
  judge_state_space(m, faults);
  std::vector<std::string> all = faults.take();
  if (all.empty() && roughly(m) > kMostParameters)
    all.push_back(fmt::format("about {:.0e} parameters, expected {:.0e} at most", roughly(m), kMostParameters));
  return all;
}

}  // namespace sinew::parallel
