#include "placed_run.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include <sinew/parallel/placement/box.hpp>
#include <sinew/parallel/placement/tensor.hpp>
#include <sinew/parallel/step_graph/passes/passes.hpp>
#include <sinew/parallel/step_graph/placed/lower.hpp>
#include <sinew/parallel/step_graph/runner.hpp>
#include <sinew/parallel/tensor/exchange.hpp>

namespace sinew::parallel::test {
namespace {

std::size_t at(TensorId t) noexcept { return static_cast<std::size_t>(t); }

TensorSpec whole_spec_of(const StepTensor& t) { return {t.name, t.dtype, t.shape, t.placements}; }

std::vector<std::int64_t> extents_of(const Box& box) {
  std::vector<std::int64_t> extents;
  for (std::size_t d = 0; d < box.first.size(); ++d) extents.push_back(box.extent(d));
  return extents;
}

Array room_for(const StepTensor& tensor, const Factorisation& mesh, int rank) {
  const Box box = local_box(whole_spec_of(tensor), mesh, rank);
  return {extents_of(box), std::vector<double>(static_cast<std::size_t>(box.elements()), -7)};
}

std::byte* bytes_of(Array& a) { return reinterpret_cast<std::byte*>(a.data.data()); }
const std::byte* bytes_of(const Array& a) { return reinterpret_cast<const std::byte*>(a.data.data()); }

/// This rank's part; of what is Partial a summand, no two alike.
Array part_of(const StepTensor& tensor, const Factorisation& mesh, int rank, const Array& whole) {
  Array part = room_for(tensor, mesh, rank);
  const Box all{std::vector<std::int64_t>(whole.shape.size(), 0), whole.shape};
  const Box mine = local_box(whole_spec_of(tensor), mesh, rank);
  copy_box(bytes_of(whole), all, bytes_of(part), mine, mine, sizeof(double));
  if (std::holds_alternative<Partial>(tensor.placements.along(mesh.axes().front().name))) {
    const double total = mesh.ranks() * (mesh.ranks() + 1) / 2.0;
    for (double& value : part.data) value *= (rank + 1) / total;
  }
  return part;
}

/// Memory and exchanges of one rank.
class Rank : public StepActions {
 public:
  Rank(World& world, const StepGraph& graph, const Factorisation& mesh)
      : world_(world), graph_(graph), mesh_(mesh), values(graph.tensors.size()) {}

  Work start(const Node& node) override {
    move(node);
    return {};
  }
  void free(const Node& /*node*/) override {}

  /// An exchange or a split.
  void move(const Node& node) {
    const StepTensor &from = graph_.tensors[at(node.operands[0])], &to = graph_.tensors[at(node.tensors[0])];
    Exchange exchange(world_.communicator(), node.name, node.axes, whole_spec_of(from),
                      from.placements.along(node.axes), to.placements.along(node.axes));
    const Array& in = values[at(node.operands[0])];
    Array& out = values[at(node.tensors[0])] = room_for(to, mesh_, world_.rank());
    exchange.run({exchange.from(), ConstBuffer(bytes_of(in), in.data.size() * sizeof(double))},
                 Buffer(bytes_of(out), out.data.size() * sizeof(double)));
  }

  void compute(const Node& node) {
    std::vector<const Array*> operands;
    for (const TensorId t : node.operands) operands.push_back(&values[at(t)]);
    for (const TensorId t : node.tensors)
      values[at(t)] = computed(node.rule, operands, room_for(graph_.tensors[at(t)], mesh_, world_.rank()).shape);
  }

 private:
  World& world_;
  const StepGraph& graph_;
  const Factorisation& mesh_;

 public:
  std::vector<Array> values;
};

}  // namespace

std::vector<Array> given(const StepGraph& graph, int seed) {
  std::vector<Array> values(graph.tensors.size());
  for (const Node& node : graph.nodes) {
    if (node.kind != NodeKind::Signal) continue;
    for (const TensorId t : node.tensors) {
      const StepTensor& tensor = graph.tensors[at(t)];
      Array& value = values[at(t)] = {tensor.shape, std::vector<double>(static_cast<std::size_t>(tensor.elements))};
      for (std::size_t i = 0; i < value.data.size(); ++i)
        value.data[i] = std::sin(1.3 * static_cast<double>(i) + 2.1 * t + seed);
    }
  }
  return values;
}

std::vector<Array> run_whole(const StepGraph& graph, std::vector<Array> values) {
  for (const Node& node : graph.nodes) {
    if (node.kind == NodeKind::Gate || node.kind == NodeKind::Signal) continue;
    std::vector<const Array*> operands;
    for (const TensorId t : node.operands) operands.push_back(&values[at(t)]);
    for (const TensorId t : node.tensors)
      values[at(t)] = node.kind == NodeKind::Compute ? computed(node.rule, operands, graph.tensors[at(t)].shape)
                                                     : *operands.front();
  }
  return values;
}

std::map<std::string, std::vector<Array>> run_on_ranks(World& world, const StepGraph& graph, const Factorisation& mesh,
                                                       const std::vector<Array>& given) {
  Rank rank(world, graph, mesh);
  StepRunner runner(wait_late(issue_early(lower(graph))), rank);
  std::map<std::string, std::vector<Array>> read;
  for (const Node& node : graph.nodes) {
    if (node.kind == NodeKind::Signal) {
      for (const TensorId t : node.tensors)
        rank.values[at(t)] = part_of(graph.tensors[at(t)], mesh, world.rank(), given[at(t)]);
    }
    if (node.kind == NodeKind::Gate || node.kind == NodeKind::Compute || node.kind == NodeKind::Split)
      runner.gate(runner.find(NodeKind::Gate, node.name));
    if (node.kind == NodeKind::Gate) {
      for (const TensorId t : node.tensors) read[node.name].push_back(rank.values[at(t)]);
    }
    if (node.kind == NodeKind::Compute) rank.compute(node);
    if (node.kind == NodeKind::Split) rank.move(node);
    if (node.kind == NodeKind::Signal || node.kind == NodeKind::Compute || node.kind == NodeKind::Split)
      runner.signal(runner.find(NodeKind::Signal, node.name));
  }
  runner.finish();
  return read;
}

std::map<std::string, std::vector<Array>> parts_of(const StepGraph& graph, const Factorisation& mesh, int rank,
                                                   const std::vector<Array>& values) {
  std::map<std::string, std::vector<Array>> parts;
  for (const Node& node : graph.nodes) {
    if (node.kind != NodeKind::Gate) continue;
    for (const TensorId t : node.tensors)
      parts[node.name].push_back(part_of(graph.tensors[at(t)], mesh, rank, values[at(t)]));
  }
  return parts;
}

double worst(const std::map<std::string, std::vector<Array>>& found,
             const std::map<std::string, std::vector<Array>>& expected) {
  double most = found.size() == expected.size() ? 0 : 1e300;
  for (const auto& [gate, arrays] : expected) {
    const auto same = found.find(gate);
    if (same == found.end() || same->second.size() != arrays.size()) return 1e300;
    for (std::size_t a = 0; a < arrays.size(); ++a) {
      if (same->second[a].shape != arrays[a].shape) return 1e300;
      for (std::size_t i = 0; i < arrays[a].data.size(); ++i)
        most =
            std::max(most, std::abs(same->second[a].data[i] - arrays[a].data[i]) / (1 + std::abs(arrays[a].data[i])));
    }
  }
  return most;
}

}  // namespace sinew::parallel::test
