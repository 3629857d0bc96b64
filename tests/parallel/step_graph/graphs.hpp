#pragma once

#include <string>
#include <vector>

#include <fmt/format.h>

#include <sinew/parallel/step_graph/graph.hpp>

namespace sinew::parallel::test {

/// Gradients g0.. of `elements` f32 each, last first as a backward pass makes them, each summed as soon as it is there;
/// then the optimizer reads all.
inline StepGraph summed_gradients(const std::vector<std::int64_t>& elements) {
  StepGraph graph;
  const auto n = static_cast<TensorId>(elements.size());
  std::vector<TensorId> all;
  for (TensorId i = 0; i < n; ++i) {
    const std::string name = fmt::format("g{}", i);
    graph.tensors.push_back({.name = name,
                             .path = fmt::format("blocks.{}.part{}.weight", i / 2, i % 2),
                             .elements = elements[static_cast<std::size_t>(i)]});
    all.push_back(i);
  }
  for (TensorId i = n; i-- > 0;) {
    const std::int32_t exchange = n - 1 - i;
    graph.nodes.push_back(
        {.kind = NodeKind::Signal, .name = graph.tensors[static_cast<std::size_t>(i)].name, .tensors = {i}});
    graph.nodes.push_back({.kind = NodeKind::AllReduce, .tensors = {i}, .axes = "dp", .exchange = exchange});
    graph.nodes.push_back({.kind = NodeKind::Wait, .tensors = {i}, .exchange = exchange});
  }
  graph.nodes.push_back({.kind = NodeKind::Gate, .name = "optimizer", .tensors = all});
  return graph;
}

/// Parameters p0.. of `elements` f32 each: gathered, read by the forward pass, freed, one after the other.
inline StepGraph gathered_parameters(const std::vector<std::int64_t>& elements) {
  StepGraph graph;
  for (TensorId i = 0; i < static_cast<TensorId>(elements.size()); ++i) {
    const std::string name = fmt::format("p{}", i);
    graph.tensors.push_back(
        {.name = name, .path = name + ".weight", .elements = elements[static_cast<std::size_t>(i)]});
    graph.nodes.push_back({.kind = NodeKind::AllGather, .tensors = {i}, .axes = "dp", .exchange = i});
    graph.nodes.push_back({.kind = NodeKind::Wait, .tensors = {i}, .exchange = i});
    graph.nodes.push_back({.kind = NodeKind::Gate, .name = "forward " + name, .tensors = {i}});
    graph.nodes.push_back({.kind = NodeKind::Signal, .name = "forward done " + name, .tensors = {i}});
    graph.nodes.push_back({.kind = NodeKind::Free, .tensors = {i}});
  }
  return graph;
}

}  // namespace sinew::parallel::test
