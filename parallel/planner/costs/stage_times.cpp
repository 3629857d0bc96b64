#include <algorithm>
#include <array>
#include <cmath>

#include <sinew/parallel/planner/costs/planned_engine.hpp>
#include <sinew/parallel/planner/costs/stage_times.hpp>
#include <sinew/parallel/planner/model/model_weights.hpp>
#include <sinew/parallel/planner/model/number.hpp>
#include <sinew/parallel/scan/head_scan.hpp>
#include <sinew/parallel/tensor/head_cut.hpp>

namespace sinew::parallel {
namespace {

/// The times of one rank for a layer, for the embeddings, and for the head.
class PassTimes {
 public:
  PassTimes(const PlanQuestion& question, const JobConfig& config, CollectiveCosts& costs)
      : q_(question), config_(config), in_(layer_input(question, config)), costs_(costs) {
    rows_ = number(in_.samples) * number(in_.sequence) / in_.cp;
  }

  StagePasses layer(std::int64_t layer, Recompute recompute) {
    const bool attends = q_.model.has_attention(layer);
    const Seconds products = products_of(layer_weights(q_.model, layer, {0, in_.tp, config_.layout.ep}));
    const Seconds core = attends ? attention() : scan();
    const LayerActivations kept = layer_activations(q_.model, layer, in_, Recompute::None);
    const Seconds by_element = 2 * kept.kept / q_.cluster.memory_bytes_per_s;
    StagePasses passes = computed(products + core + by_element, products);
    add_recomputation(layer, recompute, products, core, by_element, passes);
    add_tensor(tensor_exchanges(layer), products, passes);
    if (attends) {
      add_ring(core, passes);
    } else {
      add_state_exchanges(passes);
    }
    if (q_.model.has_experts(layer)) add_experts(passes);
    if (recompute == Recompute::Full) add_again(passes);
    return passes;
  }
  /// Adds the copies of a stage to its store and back. bytes: of all its offloaded layers. layers: their number.
  void add_copies(double bytes, double layers, StagePasses& stage) const {
    if (bytes <= 0) return;
    const Seconds all = bytes / q_.store.bytes_per_s;
    const auto add = [&](PassTime& pass, Seconds exposed) {
      pass.offload += exposed;
      pass.hidden += all - exposed;
    };
    add(stage.forward, std::max(all - stage.forward.compute, 0.0));
    const Seconds beside = stage.backward.compute + stage.backward.again;
    add(stage.backward, std::max(all - beside, all / layers));
  }

  /// The embeddings: rows are looked up in a table, and then summed over tensor-parallel ranks.
  StagePasses input() {
    StagePasses passes = computed(2 * boundary() / q_.cluster.memory_bytes_per_s, 0);
    passes.forward.tensor += exchange(Collective::AllReduce);
    return passes;
  }
  /// The head: a column-parallel layer, and the logits that it makes.
  StagePasses output() {
    const Seconds products = products_of(output_weights(q_.model, {0, in_.tp, 1}));
    const Seconds by_element = 2 * output_activations(q_.model, in_) / q_.cluster.memory_bytes_per_s;
    StagePasses passes = computed(products + by_element, products);
    if (in_.sequence_parallel) {
      passes.forward.tensor += exchange(Collective::AllGather);
      passes.backward.tensor += exchange(Collective::ReduceScatter);
    } else {
      passes.backward.tensor += exchange(Collective::AllReduce);
    }
    return passes;
  }

 private:
  double boundary() const noexcept { return rows_ * kElementBytes * number(q_.model.hidden); }

  Seconds products_of(const std::vector<Weight>& weights) const noexcept {
    const double rate = q_.efficiency * q_.cluster.flops;
    Seconds all = 0;
    for (const Weight& w : weights) {
      if (w.multiplied == 0) continue;
      const double whole = in_.sequence_parallel && is_whole(w) ? in_.tp : 1;  // each rank has a part of the rows
      const double shared = w.of_experts ? in_.tp : whole;  // each rank sends its part of the rows to experts
      all += std::max(2 * rows_ * number(w.multiplied) / shared / rate,
                      kElementBytes * number(w.elements) / q_.cluster.memory_bytes_per_s);
    }
    return all;
  }
  /// Returns whether all tensor-parallel ranks have the whole weight. With sequence parallelism each of them then
  /// multiplies only its part of the rows.
  static bool is_whole(const Weight& w) noexcept {
    return w.name == "router" || w.name == "attention.queries.down" || w.name == "attention.keys_values.down";
  }

  /// The two products of attention: scores, and the weighted sums of values. Half of the pairs of tokens count, as with
  /// a causal mask.
  Seconds attention() const {
    const HeadCut heads = cut_heads(q_.model.heads, q_.model.shared_heads(), 0, in_.tp);
    const double wide = number(heads.queries.count() * (q_.model.key_width() + q_.model.width_of_value()));
    return rows_ * number(in_.sequence) * wide / (q_.efficiency * q_.cluster.flops);
  }

  /// The products of Mamba-2's scan by chunks (HeadScan). The scan of Mamba has no products.
  Seconds scan() const {
    if (q_.model.mamba != 2) return 0;
    const HeadCut heads = cut_heads(q_.model.state_heads(), q_.model.groups_of_heads(), 0, in_.tp);
    const double chunk = number(HeadScan<float>::kChunk), wide = number(q_.model.width_of_state_head()),
                 states = number(q_.model.states_of_channel());
    const double of_token = number(heads.queries.count()) * 2 * (chunk * wide + 2 * wide * states) +
                            number(heads.key_values.count()) * 2 * chunk * states;
    return rows_ * of_token / (q_.efficiency * q_.cluster.flops);
  }

  static StagePasses computed(Seconds forward, Seconds weights) noexcept {
    StagePasses passes;
    passes.forward.compute = forward;
    passes.backward.compute = 2 * forward;
    passes.weights = weights;
    return passes;
  }

  void add_recomputation(std::int64_t layer, Recompute recompute, Seconds products, Seconds core, Seconds by_element,
                         StagePasses& passes) const {
    if (recompute == Recompute::Full) passes.backward.again += products + core + by_element;
    if (recompute != Recompute::Selective) return;
    const double again = layer_activations(q_.model, layer, in_, Recompute::Selective).made_again;
    passes.backward.again += 2 * again / q_.cluster.memory_bytes_per_s;
    if (q_.attention == AttentionMemory::Stored && q_.model.has_attention(layer))
      passes.backward.again += core / 2;  // only scores are computed again
  }

  /// One exchange of the activations between two layers.
  Seconds exchange(Collective collective) const { return costs_.seconds(collective, {in_.tp, 1}, boundary()); }
  /// The number of pairs of a column-parallel and a row-parallel layer.
  int tensor_exchanges(std::int64_t layer) const noexcept {
    if (in_.tp == 1) return 0;
    if (!q_.model.has_mlp(layer)) return 1;
    return q_.model.has_experts(layer) && q_.model.shared_experts == 0 ? 1 : 2;
  }
  void add_tensor(int pairs, Seconds products, StagePasses& passes) const {
    if (pairs == 0) return;
    const Seconds one = in_.sequence_parallel ? exchange(Collective::AllGather) + exchange(Collective::ReduceScatter)
                                              : exchange(Collective::AllReduce);
    const Seconds again = in_.sequence_parallel ? exchange(Collective::AllGather) : 0;  // a second gather of the input
    const Seconds backward = pairs * (one + again);
    passes.forward.tensor += pairs * one;
    passes.backward.tensor += backward - std::min(backward / 2, products);
  }

  void add_ring(Seconds core, StagePasses& passes) const {
    if (in_.cp == 1) return;
    const HeadCut heads = cut_heads(q_.model.heads, q_.model.shared_heads(), 0, in_.tp);
    const std::int64_t here = q_.model.is_latent() ? heads.queries.count() : heads.key_values.count();
    const double bytes = rows_ * kElementBytes * number(here * (q_.model.key_width() + q_.model.width_of_value()));
    const int apart = in_.tp;
    const Seconds forward = costs_.message(apart, bytes) - core / in_.cp;
    const Seconds backward = costs_.message(apart, 2 * bytes) - 2 * core / in_.cp;
    passes.forward.context += (in_.cp - 1) * std::max(forward, 0.0);
    passes.backward.context += (in_.cp - 1) * std::max(backward, 0.0);
  }

  /// The sums over channels of Mamba, or over heads of a group of Mamba-2. States pass from piece to piece of a
  /// sequence in as many rounds as StateScan takes.
  void add_state_exchanges(StagePasses& passes) const {
    const ModelShape& m = q_.model;
    const double states = number(m.states_of_channel());
    const double summed = m.mamba == 1 ? number(m.width_of_steps()) + 2 * states : number(m.groups_of_heads());
    const bool sums = m.mamba == 1 || m.groups_of_heads() % in_.tp != 0;
    const Seconds sum = sums ? costs_.seconds(Collective::AllReduce, {in_.tp, 1}, rows_ * kElementBytes * summed) : 0;
    passes.forward.tensor += sum;
    passes.backward.tensor += sum;
    if (in_.cp == 1) return;
    const double channels = number(m.channels()) / in_.tp;
    const double rounds = std::ceil(std::log2(2.0 * in_.cp));
    const double bytes = 2 * number(in_.samples) * kElementBytes * channels * (1 + states);
    const Seconds chain = rounds * costs_.message(in_.tp, bytes);
    passes.forward.context += chain;
    passes.backward.context += chain;
  }

  void add_experts(StagePasses& passes) const {
    const int ep = config_.layout.ep;
    if (ep == 1) return;
    const double bytes = boundary() * number(q_.model.top_k) / in_.tp;
    const Seconds there = costs_.seconds(Collective::AllToAll, {ep, config_.layout.etp}, bytes);
    passes.forward.experts += 2 * there;
    passes.backward.experts += 2 * there;
  }

  /// Full recomputation repeats the exchanges of the forward pass.
  static void add_again(StagePasses& passes) noexcept {
    passes.backward.tensor += passes.forward.tensor;
    passes.backward.context += passes.forward.context;
    passes.backward.experts += passes.forward.experts;
  }

  const PlanQuestion& q_;
  const JobConfig& config_;
  LayerInput in_;
  CollectiveCosts& costs_;
  double rows_ = 0;
};

}  // namespace

PassTime& PassTime::operator+=(const PassTime& o) noexcept {
  compute += o.compute;
  again += o.again;
  tensor += o.tensor;
  context += o.context;
  experts += o.experts;
  offload += o.offload;
  hidden += o.hidden;
  return *this;
}

StagePasses& StagePasses::operator+=(const StagePasses& o) noexcept {
  forward += o.forward;
  backward += o.backward;
  weights += o.weights;
  return *this;
}

std::vector<StagePasses> stage_passes(const PlanQuestion& question, const JobConfig& config, CollectiveCosts& costs) {
  const ModelShape& m = question.model;
  PassTimes times(question, config, costs);
  const LayerInput in = layer_input(question, config);
  const std::vector<LayerTreatment> treatments = treatment_of_layers(question, config.recompute);
  std::array<ByLayerKind<StagePasses>, 3> of_kind;  // by recomputation
  std::vector<StagePasses> all;
  for (const Rows& layers : layers_of_stages(m.layers, stages(config))) {
    StagePasses stage;
    double stored = 0, stored_layers = 0;
    for (std::int64_t l = layers.first; l < layers.last; ++l) {
      const LayerTreatment& t = treatments[static_cast<std::size_t>(l)];
      stage += of_kind[static_cast<std::size_t>(t.recompute)].of(
          m, l, [&](std::int64_t layer) { return times.layer(layer, t.recompute); });
      if (!t.is_offloaded) continue;
      stored += layer_activations(m, l, in, t.recompute).kept;
      ++stored_layers;
    }
    times.add_copies(stored, stored_layers, stage);
    all.push_back(stage);
  }
  all.front() += times.input();
  all.back() += times.output();
  return all;
}

}  // namespace sinew::parallel
