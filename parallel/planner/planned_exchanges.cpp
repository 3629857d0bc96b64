#include <algorithm>
#include <cstdint>
#include <limits>
#include <string_view>

#include <fmt/format.h>

#include <sinew/parallel/job/describe.hpp>
#include <sinew/parallel/planner/costs/planned_engine.hpp>
#include <sinew/parallel/planner/planned_exchanges.hpp>
#include <sinew/parallel/tensor/layer_step.hpp>

namespace sinew::parallel {
namespace {

double seconds_of(CollectiveCosts& costs, const Factorisation& mesh, NodeKind kind, std::string_view axes,
                  std::int64_t bytes) {
  GroupShape group{mesh.size(axes), std::numeric_limits<int>::max()};
  const Factorisation along = mesh.slice(axes);
  for (const Axis& axis : along.axes()) {
    if (axis.size > 1) group.stride = std::min(group.stride, mesh.stride(axis.name));
  }
  if (group.ranks == 1) return 0;
  const auto whole = static_cast<double>(bytes);
  switch (kind) {
    case NodeKind::AllGather: return costs.seconds(Collective::AllGather, group, whole);
    case NodeKind::ReduceScatter: return costs.seconds(Collective::ReduceScatter, group, whole);
    case NodeKind::AllReduce: return costs.seconds(Collective::AllReduce, group, whole);
    case NodeKind::AllToAll: return costs.seconds(Collective::AllToAll, group, whole / group.ranks);
    case NodeKind::Gate:
    case NodeKind::Signal:
    case NodeKind::Send:
    case NodeKind::Receive:
    case NodeKind::Wait:
    case NodeKind::Free:
    case NodeKind::Split:
    case NodeKind::Compute: break;
  }
  return 0;
}

LayerGraph layer_of(const PlanQuestion& q, const JobConfig& config) {
  const Factorisation mesh({{"tp", config.layout.tp}});
  LayerGraph g(mesh, {.sequence_parallel = config.sequence_parallel, .dtype = config.precision.output});
  const int cp = q.ranks() / (config.layout.tp * config.layout.pp * data_ranks(q.ranks(), config));
  const ModelShape& m = q.model;
  TensorId x = g.rows("x", samples_of_pass(q.ranks(), config) * q.sequence / cp, m.hidden);
  x = g.residual("first sum", x, g.attention_block("attention", g.norm("first norm", x), m.heads));
  if (m.feed_forward > 0) x = g.residual("second sum", x, g.mlp("mlp", g.norm("second norm", x), m.feed_forward));
  g.output("out", x);
  return g;
}

}  // namespace

std::string planned_exchanges(const PlanQuestion& question, const JobConfig& config, CollectiveCosts& costs) {
  std::string text = describe_exchanges(question.ranks(), config, planned_engine(question),
                                        [&](const Factorisation& mesh, NodeKind kind, std::string_view axes,
                                            std::int64_t bytes) { return seconds_of(costs, mesh, kind, axes, bytes); });
  if (config.layout.tp == 1 || question.model.attention_layers() == 0) return text;
  const LayerGraph layer = layer_of(question, config);
  const OptimizedComputes step =
      layer_step(layer, {.merge = ByteBuckets{},
                         .saved_bytes = 0,
                         .prices = {.seconds = [&](NodeKind kind, std::string_view axes, std::int64_t bytes) {
                           return seconds_of(costs, layer.mesh(), kind, axes, bytes);
                         }}});
  return text + fmt::format("exchanges of a layer that {} ranks share, of one microbatch forward and backward\n{}",
                            config.layout.tp, step.report.to_string(step.graph));
}

}  // namespace sinew::parallel
