#include <algorithm>
#include <utility>

#include <sinew/parallel/placement/rows.hpp>
#include <sinew/parallel/planner/model/model_weights.hpp>
#include <sinew/parallel/tensor/head_cut.hpp>

namespace sinew::parallel {
namespace {

/// Writes the list of a rank's weights.
class WeightListing {
 public:
  WeightListing(const ModelShape& model, const WeightPart& part) : model_(model), part_(part) {}

  std::int64_t cut(std::int64_t extent) const noexcept { return rows_of({}, part_.tp_rank, part_.tp, extent).count(); }

  void matrix(std::string name, std::int64_t in, std::int64_t out, std::int64_t bias = 0) {
    all_.push_back({name, in * out, in * out});
    if (model_.biases && bias > 0) all_.push_back({std::move(name) + ".bias", bias});
  }
  void vector(std::string name, std::int64_t elements) { all_.push_back({std::move(name), elements}); }
  void norm(std::string name, std::int64_t width) { vector(std::move(name), model_.layer_norm ? 2 * width : width); }

  void attention() {
    const HeadCut heads = cut_heads(model_.heads, model_.shared_heads(), part_.tp_rank, part_.tp);
    const std::int64_t shared = heads.key_values_cut ? heads.key_values.count() : model_.shared_heads();
    const std::int64_t h = model_.hidden, queries = heads.queries.count() * model_.key_width();
    if (model_.is_latent()) {
      latent(heads.queries.count(), queries);
    } else {
      const std::int64_t made = shared * (model_.key_width() + model_.width_of_value());
      matrix("attention.queries", h, queries, queries);
      matrix("attention.keys_values", h, made, made);
    }
    matrix("attention.out", heads.queries.count() * model_.width_of_value(), h, h);
  }
  void mlp(const std::string& name, std::int64_t inner) {
    const std::int64_t h = model_.hidden, here = cut(inner);
    matrix(name + ".up", h, here, here);
    if (model_.gated) matrix(name + ".gate", h, here, here);
    matrix(name + ".down", here, h, h);
  }
  void experts() {
    const std::int64_t h = model_.hidden, f = model_.expert_feed_forward, matrices = model_.gated ? 3 : 2;
    matrix("router", h, model_.experts);
    if (model_.router_bias) vector("router.bias", model_.experts);
    if (model_.shared_experts > 0) mlp("shared_experts", model_.shared_experts * f);
    const std::int64_t held = (model_.experts + part_.ep - 1) / part_.ep;
    all_.push_back({"experts", held * matrices * h * f, model_.top_k * matrices * h * f, true});
    if (model_.biases) all_.push_back({"experts.bias", held * (matrices - 1) * f + held * h, 0, true});
  }

  /// The parameters of ScanModule.
  void scan() {
    const std::int64_t h = model_.hidden, here = cut(model_.channels()), low = model_.width_of_steps(),
                       states = model_.states_of_channel();
    matrix("scan.in", h, 2 * here);
    vector("scan.taps", here * (model_.taps_of_channel() + 1));
    matrix("scan.dynamics", here, low + 2 * states);
    matrix("scan.step", low, here);
    vector("scan.vectors", here * (2 + states));  // the bias of steps, rates and skip
    matrix("scan.out", here, h);
  }
  /// The parameters of StateSpaceModule.
  void state_space() {
    const std::int64_t groups = model_.groups_of_heads();
    const HeadCut cut = cut_heads(model_.state_heads(), groups, part_.tp_rank, part_.tp);
    const std::int64_t h = model_.hidden, heads = cut.queries.count(), here = heads * model_.width_of_state_head(),
                       taps = model_.taps_of_channel(),
                       shared = 2 * (cut.key_values_cut ? cut.key_values.count() : groups) * model_.states_of_channel();
    matrix("state_space.in", h, 2 * here);
    matrix("state_space.states", h, shared);
    matrix("state_space.step", h, heads);
    vector("state_space.taps", here * (taps + 1));
    vector("state_space.state_taps", shared * (taps + 1));
    vector("state_space.vectors", 3 * heads);  // the bias of steps, rates and skip
    vector("state_space.norm", here);
    matrix("state_space.out", here, h);
  }

  std::vector<Weight> take() { return std::move(all_); }

 private:
  void latent(std::int64_t heads, std::int64_t queries) {
    const std::int64_t h = model_.hidden, kv = model_.key_value_rank;
    if (model_.query_rank > 0) {
      matrix("attention.queries.down", h, model_.query_rank);
      norm("attention.queries.norm", model_.query_rank);
      matrix("attention.queries.up", model_.query_rank, queries);
    } else {
      matrix("attention.queries", h, queries);
    }
    matrix("attention.keys_values.down", h, kv + model_.rope_width);
    norm("attention.keys_values.norm", kv);
    matrix("attention.keys_values.up", kv, heads * (model_.width_of_head() + model_.width_of_value()));
  }

  const ModelShape& model_;
  const WeightPart& part_;
  std::vector<Weight> all_;
};

template <class Of>
std::int64_t sum(const std::vector<Weight>& weights, Of of) noexcept {
  std::int64_t all = 0;
  for (const Weight& w : weights) all += w.*of;
  return all;
}

/// Sums over all layers.
template <class Count>
std::int64_t over_layers(const ModelShape& m, Count count) {
  ByLayerKind<std::int64_t> of_kind;
  std::int64_t all = 0;
  for (std::int64_t l = 0; l < m.layers; ++l)
    all += of_kind.of(m, l, [&](std::int64_t layer) { return count(layer_weights(m, layer)); });
  return all;
}

}  // namespace

std::vector<Weight> layer_weights(const ModelShape& model, std::int64_t layer, const WeightPart& part) {
  WeightListing list(model, part);
  list.norm("attention.norm", model.hidden);
  if (model.has_attention(layer)) {
    list.attention();
  } else if (model.mamba == 1) {
    list.scan();
  } else {
    list.state_space();
  }
  if (!model.has_mlp(layer)) return list.take();
  list.norm("mlp.norm", model.hidden);
  if (model.has_experts(layer)) {
    list.experts();
  } else {
    list.mlp("mlp", model.feed_forward);
  }
  return list.take();
}

std::vector<Weight> input_weights(const ModelShape& model, const WeightPart& part) {
  WeightListing list(model, part);
  list.vector("tokens", list.cut(model.vocabulary) * model.hidden);
  if (model.learned_positions) list.vector("positions", model.context * model.hidden);
  return list.take();
}

std::vector<Weight> output_weights(const ModelShape& model, const WeightPart& part, bool holds_table) {
  WeightListing list(model, part);
  list.norm("final.norm", model.hidden);
  const std::int64_t head = list.cut(model.vocabulary) * model.hidden;
  std::vector<Weight> all = list.take();
  all.push_back({"head", model.tied && !holds_table ? 0 : head, head});
  return all;
}

std::int64_t elements_of(const std::vector<Weight>& weights) noexcept { return sum(weights, &Weight::elements); }

std::int64_t parameter_count(const ModelShape& m) {
  return over_layers(m, elements_of) + elements_of(input_weights(m)) + elements_of(output_weights(m));
}

std::int64_t active_parameter_count(const ModelShape& m) {
  const auto active = [](const std::vector<Weight>& weights) {
    std::int64_t all = 0;
    for (const Weight& w : weights) all += w.of_experts && w.multiplied > 0 ? w.multiplied : w.elements;
    return all;
  };
  return over_layers(m, active) + elements_of(input_weights(m)) + elements_of(output_weights(m));
}

double model_flops_of_token(const ModelShape& m, std::int64_t sequence) {
  const auto multiplied_of = [](const std::vector<Weight>& weights) { return sum(weights, &Weight::multiplied); };
  const std::int64_t multiplied = over_layers(m, multiplied_of) + multiplied_of(output_weights(m));
  const std::int64_t attention = m.attention_layers() * sequence * m.heads * (m.key_width() + m.width_of_value());
  const std::int64_t state = (m.layers - m.attention_layers()) * m.channels() * m.states_of_channel();
  return 6.0 * static_cast<double>(multiplied) + 6.0 * static_cast<double>(attention) +
         12.0 * static_cast<double>(state);
}

}  // namespace sinew::parallel
