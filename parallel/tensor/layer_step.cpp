#include <algorithm>

#include <sinew/core/error.hpp>
#include <sinew/parallel/tensor/gradient_graph.hpp>
#include <sinew/parallel/tensor/layer_step.hpp>

namespace sinew::parallel {

OptimizedComputes layer_step(const LayerGraph& model, ExchangeOptions options) {
  const std::vector<Node>& forward = model.graph().nodes;
  const auto output = std::ranges::find(forward, NodeKind::Gate, &Node::kind);
  if (output == forward.end())
    throw Error(Code::InvalidArgument, "layer step: the model has no output, expected LayerGraph::output() before");
  if (options.backward.empty()) options.backward = "gradient of " + output->name;
  return optimize_exchanges(with_backward(model.graph(), model.mesh()), model.mesh(), options);
}

OptimizedComputes layer_evaluation(const LayerGraph& model, const ExchangeOptions& options) {
  return optimize_exchanges(model.graph(), model.mesh(), options);
}

}  // namespace sinew::parallel
