#include "exchange_times.hpp"

#include <algorithm>
#include <gpt/model/model.hpp>
#include <gpt/train/plan.hpp>
#include <gpt/train/trainer.hpp>

#include <sinew/parallel/data_parallel/plan/step_plan.hpp>
#include <sinew/parallel/job/data_strategy.hpp>
#include <sinew/parallel/job/job.hpp>
#include <sinew/parallel/mesh/mesh.hpp>

namespace {

namespace sp = sinew::parallel;
using sinew::Collective;

/// What a call on f32 takes; elements: of the larger buffer.
double cost(sinew::Communicator& group, Collective collective, double elements) {
  const auto ranks = static_cast<std::uint64_t>(group.size());
  if (ranks <= 1 || elements < 1) return 0;
  sinew::CollectiveDesc desc{.collective = collective, .dtype = sinew::DType::F32, .count = 1};
  const sinew::Blocks blocks = sinew::blocks_of(collective, ranks);
  desc.count = std::max<std::uint64_t>(static_cast<std::uint64_t>(elements) / std::max(blocks.in, blocks.out), 1);
  return group.plan(desc).chosen().predicted;
}

Collective collective_of(sp::NodeKind kind) {
  if (kind == sp::NodeKind::AllGather) return Collective::AllGather;
  return kind == sp::NodeKind::ReduceScatter ? Collective::ReduceScatter : Collective::AllReduce;
}

/// Exchanges of data parallelism, from the graph that a step runs.
void add_data(sp::Mesh& mesh, const sp::DataStrategy& strategy, const std::vector<sp::DataParameter>& parameters,
              const gpt::Options& options, ExchangeTimes& times) {
  const sp::StepPlan plan = sp::plan_step(parameters, strategy.row, strategy.options.step);
  double before = 0, all = 0;
  for (const sp::DataParameter& p : parameters) all += static_cast<double>(p.elements);
  bool updated = false;
  for (const sp::Node& node : plan.graph.nodes) {
    if (node.kind == sp::NodeKind::Gate && node.name == "optimizer") updated = true;
    if (!is_exchange(node.kind)) continue;
    const double elements = static_cast<double>(plan.graph.bytes(node)) / sizeof(float);
    const double seconds = cost(mesh.along(node.axes), collective_of(node.kind), elements);
    if (node.kind == sp::NodeKind::AllGather) {
      const bool in_pass = options.job.zero == 3 && !updated;
      (in_pass ? times.gathers_of_pass : times.gathers_of_step) += seconds;
    } else {
      before += elements;
      times.gradients.push_back({std::min(before / all, 1.0), seconds});
    }
  }
}

/// Exchanges of layers: two sums each way of a tensor-parallel group, keys and values round a ring and their gradients.
void add_layers(sp::Mesh& mesh, const sp::DataStrategy& strategy, int ranks, const gpt::Options& options,
                ExchangeTimes& times) {
  const sp::JobConfig& job = options.job;
  const double rows = static_cast<double>(sp::samples_of_pass(ranks, job)) * options.shape.context / job.layout.cp;
  const double elements = rows * options.shape.width;
  sinew::Communicator& tensor = mesh.along("tp");
  const double sum = job.sequence_parallel ? cost(tensor, Collective::AllGather, elements) +
                                                 cost(tensor, Collective::ReduceScatter, elements)
                                           : cost(tensor, Collective::AllReduce, elements);
  const double again = job.sequence_parallel ? cost(tensor, Collective::AllGather, elements) : 0;
  times.of_layer = 4 * sum + 2 * again;
  times.of_ends = 2 * sum + 3 * cost(tensor, Collective::AllReduce, rows);
  if (job.layout.cp > 1) {
    sinew::Communicator& ring = mesh.along(strategy.ring);
    const double shared = 2 * rows * options.shape.shared_heads() * options.shape.head_width() / job.layout.tp;
    if (ring.size() > 1)
      times.of_layer +=
          (ring.size() - 1) * (cost(ring, Collective::SendRecv, shared) + 2 * cost(ring, Collective::SendRecv, shared));
    if (!strategy.head_sharers.empty()) {
      sinew::Communicator& sharers = mesh.along(strategy.head_sharers);
      times.of_layer += 2 * cost(sharers, Collective::AllToAll, 2 * shared);
    }
  }
  if (job.layout.pp > 1) {
    sinew::Communicator& pipeline = mesh.along("pp");
    times.to_next_stage =
        cost(pipeline, Collective::SendRecv, job.sequence_parallel ? elements / job.layout.tp : elements);
    const double table = static_cast<double>(gpt::kVocabulary) * options.shape.width / job.layout.tp;
    times.tied = 2 * cost(pipeline, Collective::SendRecv, table);
  }
}

bool leaves_host(sinew::World& world, const sp::DataStrategy& strategy) {
  const auto& ranks = world.cluster().ranks;
  for (const std::vector<int>& group : strategy.shape.groups(strategy.ranks)) {
    for (const int r : group) {
      if (ranks[static_cast<std::size_t>(r)].host != ranks[static_cast<std::size_t>(group.front())].host) return true;
    }
  }
  return false;
}

}  // namespace

ExchangeTimes exchange_times(sinew::World& world, const gpt::Options& options) {
  const sp::EngineFacts engine = gpt::engine_facts(options.shape);
  const sp::DataStrategy strategy = sp::data_strategy(world.size(), options.job, engine);
  sp::Mesh mesh(world.communicator(), strategy.shape, strategy.groups);
  const sp::RankPlace place{mesh.index("tp"), mesh.index(strategy.context), mesh.index("pp")};
  ExchangeTimes times;
  add_data(mesh, strategy, engine.parameters(options.job, place), options, times);
  add_layers(mesh, strategy, world.size(), options, times);
  times.data_leaves_host = leaves_host(world, strategy);
  return times;
}
