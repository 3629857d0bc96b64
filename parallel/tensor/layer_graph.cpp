#include <utility>

#include <sinew/parallel/placement/rows.hpp>
#include <sinew/parallel/step_graph/placed/growing_graph.hpp>
#include <sinew/parallel/tensor/layer_graph.hpp>

namespace sinew::parallel {
namespace {

ComputeRule product(std::string labels, std::vector<std::size_t> linear = {0, 1}) {
  return {.labels = std::move(labels), .linear = std::move(linear)};
}

/// Columns cut so that no head is.
Shard cut_at_heads(int dim, std::int64_t heads, std::int64_t width, int ranks) {
  Shard cut{dim, {0}};
  for (int r = 0; r < ranks; ++r) cut.offsets.push_back(rows_of({}, r, ranks, heads).last * (width / heads));
  return cut;
}

}  // namespace

LayerGraph::LayerGraph(const Factorisation& mesh, Form form) : mesh_(mesh), form_(std::move(form)) {}

Placement LayerGraph::between() const { return form_.sequence_parallel ? Placement(Shard{0, {}}) : Replicate{}; }

TensorId LayerGraph::input(const std::string& name, std::vector<std::int64_t> shape, const Placement& placement) {
  const TensorId t = add_tensor(graph_, {.name = name,
                                         .dtype = form_.dtype,
                                         .shape = std::move(shape),
                                         .placements = Placements{}.with(form_.axis, placement)});
  graph_.nodes.push_back({.kind = NodeKind::Signal, .name = name, .tensors = {t}});
  return t;
}

TensorId LayerGraph::rows(const std::string& name, std::int64_t rows, std::int64_t width) {
  return input(name, {rows, width}, between());
}

void LayerGraph::output(const std::string& name, TensorId tensor) {
  graph_.nodes.push_back({.kind = NodeKind::Gate, .name = name, .tensors = {tensor}});
}

TensorId LayerGraph::compute(const std::string& name, const ComputeRule& rule, const std::vector<TensorId>& operands,
                             std::vector<std::int64_t> shape) {
  return add_compute(graph_, mesh_, {.name = name, .operands = operands, .rule = rule},
                     {.name = name, .dtype = form_.dtype, .shape = std::move(shape)});
}

TensorId LayerGraph::moved(TensorId tensor, const Placement& to) {
  return add_move(graph_, mesh_, tensor, form_.axis, to);
}

TensorId LayerGraph::column_linear(const std::string& name, TensorId x, std::int64_t outputs, const Shard& cut) {
  const TensorId weight = input(name + ".weight", {outputs, width(x)}, Shard{0, cut.offsets});
  x = moved(x, Replicate{});
  return moved(compute(name, product("ri,oi->ro"), {x, weight}, {tensor(x).shape[0], outputs}), between());
}

TensorId LayerGraph::row_linear(const std::string& name, TensorId x, std::int64_t outputs, const Shard& cut) {
  const TensorId weight = input(name + ".weight", {outputs, width(x)}, Shard{1, cut.offsets});
  x = moved(x, Shard{1, cut.offsets});
  return moved(compute(name, product("ri,oi->ro"), {x, weight}, {tensor(x).shape[0], outputs}), between());
}

TensorId LayerGraph::norm(const std::string& name, TensorId x) {
  const TensorId gain = input(name + ".gain", {width(x)}, Replicate{});
  return compute(name, {.labels = "ro,o->ro", .function = "norm", .whole = "o", .linear = {1}}, {x, gain},
                 tensor(x).shape);
}

TensorId LayerGraph::residual(const std::string& name, TensorId x, TensorId y) {
  return compute(name, {.labels = "ro+ro->ro"}, {x, y}, tensor(x).shape);
}

TensorId LayerGraph::element_wise(const std::string& name, TensorId x, const std::string& function) {
  return compute(name, {.labels = "ro->ro", .function = function}, {x}, tensor(x).shape);
}

TensorId LayerGraph::attention(const std::string& name, TensorId q, TensorId k, TensorId v, std::int64_t heads) {
  const std::int64_t rows = tensor(q).shape[0], each = width(q) / heads;
  const Shard cut = cut_at_heads(1, heads, width(q), mesh_.size(form_.axis));
  const auto by_heads = [&](const char* what, TensorId t) {
    return compute(name + what, product("r(hd)->rhd", {0}), {moved(t, cut)}, {rows, heads, each});
  };
  const TensorId queries = by_heads(".q", q), keys = by_heads(".k", k), values = by_heads(".v", v);
  const TensorId scores = compute(name + ".scores", product("rhd,shd->hrs"), {queries, keys}, {heads, rows, rows});
  const TensorId weights = compute(name + ".softmax", {.labels = "hrs->hrs", .function = "softmax", .whole = "s"},
                                   {scores}, {heads, rows, rows});
  const TensorId mixed = compute(name + ".mix", product("hrs,shd->rhd"), {weights, values}, {rows, heads, each});
  return moved(compute(name, product("rhd->r(hd)", {0}), {mixed}, {rows, heads * each}), between());
}

TensorId LayerGraph::mlp(const std::string& name, TensorId x, std::int64_t hidden, const std::string& function) {
  const TensorId up = column_linear(name + ".up", x, hidden);
  return row_linear(name + ".down", element_wise(name + "." + function, up, function), width(x));
}

TensorId LayerGraph::attention_block(const std::string& name, TensorId x, std::int64_t heads) {
  const std::int64_t columns = width(x);
  const Shard cut = cut_at_heads(0, heads, columns, mesh_.size(form_.axis));
  const TensorId q = column_linear(name + ".query", x, columns, cut), k = column_linear(name + ".key", x, columns, cut),
                 v = column_linear(name + ".value", x, columns, cut);
  return row_linear(name + ".out", attention(name + ".core", q, k, v, heads), columns, cut);
}

}  // namespace sinew::parallel
