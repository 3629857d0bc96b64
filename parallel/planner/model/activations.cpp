#include <algorithm>

#include <sinew/parallel/planner/model/activations.hpp>
#include <sinew/parallel/planner/model/number.hpp>
#include <sinew/parallel/tensor/head_cut.hpp>

namespace sinew::parallel {
namespace {

constexpr double kMask = 1, kLogit = 4;

/// Bytes that one token keeps in a layer, by how tensor-parallel ranks divide them.
struct RowBytes {
  double whole = 0;         ///< whole on each tensor-parallel rank; with sequence parallelism cut by rows
  double cut = 0;           ///< cut over tensor-parallel ranks
  double whole_always = 0;  ///< whole on each tensor-parallel rank, also with sequence parallelism
  double scores = 0;        ///< attention scores, which are also cut over tensor-parallel ranks
  double cheap = 0;         ///< the part of `whole` that norms put out, which is cheap to make again
  double cheap_cut = 0;

  double bytes(const LayerInput& in) const noexcept {
    return whole / (in.sequence_parallel ? in.tp : 1) + whole_always + (cut + scores) / in.tp;
  }
  double cheap_bytes(const LayerInput& in) const noexcept {
    return cheap / (in.sequence_parallel ? in.tp : 1) + cheap_cut / in.tp;
  }
};

double rows_of_rank(const LayerInput& in) noexcept { return number(in.samples) * number(in.sequence) / in.cp; }

void add_norm(RowBytes& row, double hidden) noexcept {  // the input and the output of the norm
  row.whole += 2 * kElementBytes * hidden;
  row.cheap += kElementBytes * hidden;
}

void add_attention(const ModelShape& m, const LayerInput& in, RowBytes& row) {
  const double h = number(m.hidden), a = number(m.heads);
  const double keys_of = m.is_latent() ? a : number(m.shared_heads());
  add_norm(row, h);
  if (m.is_latent()) row.whole += kElementBytes * number(2 * m.query_rank + 2 * m.key_value_rank + m.rope_width);
  row.cut += kElementBytes * (a * number(m.key_width()) + keys_of * number(m.key_width() + m.width_of_value()));
  row.cut += kElementBytes * a * number(m.width_of_value());  // the input of the output projection
  if (m.dropout) row.whole += kMask * h;
  if (in.attention == AttentionMemory::Stored)
    row.scores += a * number(in.sequence) * (m.dropout ? 2 * kElementBytes + kMask : kElementBytes);
}

/// Adds the arrays that ScanModule and StateSpaceModule keep for a token. Both also keep the states at the beginning of
/// each piece of a sequence. These bytes are divided evenly among the tokens of the piece.
void add_state_space(const ModelShape& m, const LayerInput& in, RowBytes& row) {
  const double c = number(m.channels()), states = number(m.states_of_channel());
  const double pieces = in.cp > 1 ? 2 : 1, tokens = number(in.sequence) / in.cp;
  const double before = pieces * number(m.taps_of_channel() - 1) / tokens;  // tokens before each piece
  add_norm(row, number(m.hidden));
  row.cut += kElementBytes * pieces / tokens * c * states;
  if (m.mamba == 1) {
    row.cut += kElementBytes * (8 + before) * c;
    row.whole_always += kElementBytes * (number(m.width_of_steps()) + 2 * states);
    return;
  }
  const HeadCut heads = cut_heads(m.state_heads(), m.groups_of_heads(), 0, in.tp);
  const double groups = number(heads.key_values.count());
  row.cut += kElementBytes * ((3 + before) * c + 3 * c + 2 * number(m.state_heads()));
  row.whole_always += kElementBytes * ((3 + before) * 2 * groups * states + groups);
}

/// Adds an MLP of `inner` columns: the input of its activation function, the gate if there is one, and the output.
void add_bent(const ModelShape& m, double inner, RowBytes& row) noexcept {
  row.cut += kElementBytes * inner * (m.gated ? 3 : 2);
  row.cheap_cut += kElementBytes * inner;
}

void add_experts(const ModelShape& m, RowBytes& row) noexcept {
  const double h = number(m.hidden), inner = number(m.expert_feed_forward), k = number(m.top_k);
  row.cut += kLogit * number(m.experts);                               // scores of the router
  row.cut += k * kElementBytes * (2 * h + (m.gated ? 3 : 2) * inner);  // dispatched rows, inner columns, combined rows
  row.cheap_cut += k * kElementBytes * inner;
  add_bent(m, number(m.shared_experts) * inner, row);
}

RowBytes row_bytes(const ModelShape& m, std::int64_t layer, const LayerInput& in) {
  RowBytes row;
  if (m.has_attention(layer)) {
    add_attention(m, in, row);
  } else {
    add_state_space(m, in, row);
  }
  if (!m.has_mlp(layer)) return row;
  add_norm(row, number(m.hidden));
  if (m.has_experts(layer)) {
    add_experts(m, row);
  } else {
    add_bent(m, number(m.feed_forward), row);
  }
  if (m.dropout) row.whole += kMask * number(m.hidden);
  return row;
}

}  // namespace

LayerActivations layer_activations(const ModelShape& model, std::int64_t layer, const LayerInput& in,
                                   Recompute recompute) {
  const RowBytes row = row_bytes(model, layer, in);
  const double rows = rows_of_rank(in), all = rows * row.bytes(in);
  switch (recompute) {
    case Recompute::None: return {all, 0};
    case Recompute::Selective: {
      const double again = rows * (in.attention == AttentionMemory::Stored ? row.scores / in.tp : row.cheap_bytes(in));
      return {all - again, again};
    }
    case Recompute::Full: return {boundary_bytes(model, in), all};
  }
  return {};
}

double input_activations(const ModelShape& model, const LayerInput& in) {
  return model.dropout ? boundary_bytes(model, in) / kElementBytes * kMask : 0;
}

double output_activations(const ModelShape& model, const LayerInput& in) {
  return 2 * boundary_bytes(model, in) + rows_of_rank(in) * kLogit * number(model.vocabulary) / in.tp;
}

double boundary_bytes(const ModelShape& model, const LayerInput& in) {
  return rows_of_rank(in) * kElementBytes * number(model.hidden) / (in.sequence_parallel ? in.tp : 1);
}

}  // namespace sinew::parallel
