#include <algorithm>

#include <sinew/core/numeric/codec.hpp>
#include <sinew/parallel/common/at.hpp>
#include <sinew/parallel/data_parallel/memory/far_traffic.hpp>
#include <sinew/parallel/data_parallel/memory/flat_group.hpp>
#include <sinew/parallel/data_parallel/memory/scatter_stage.hpp>
#include <sinew/parallel/data_parallel/plan/pass_graphs.hpp>
#include <sinew/parallel/data_parallel/plan/step_plan.hpp>
#include <sinew/parallel/data_parallel/wire/coded_elements.hpp>
#include <sinew/parallel/mesh/axis_names.hpp>

namespace sinew::parallel {
namespace {

class TrafficCounter {
 public:
  TrafficCounter(const std::vector<DataParameter>& parameters, const DataRow& row, const DataParallelOptions& options,
                 const Factorisation& shape, const std::string& near, const StepPlan& plan)
      : options_(options),
        shape_(shape),
        near_(near.empty() ? std::vector<std::string>() : split_names(near)),
        sharded_(sharded_axis(row)),
        parameters_(parameters.size()),
        group_of_(parameters.size()) {
    const int shards = sharded_.axis.empty() ? 1 : shape.size(sharded_.axis);
    for (const auto& members : plan.groups) {
      for (const std::int32_t p : members) group_of_[at(p)] = values_.size();
      values_.push_back(flat_group(parameters, members, shards));
      gradients_.push_back(of_gradients(values_.back(), parameters));
    }
  }

  FarTraffic of(const StepGraph& graph) const {
    FarTraffic sum;
    for (const Node& node : graph.nodes) {
      if (!is_exchange(node.kind)) continue;
      (node.kind == NodeKind::AllGather ? sum.weights : sum.gradients) += bytes_of(node);
    }
    return sum;
  }

 private:
  struct Ranks {
    std::int64_t near = 1, far = 1;
  };
  Ranks ranks_along(const std::string& axes) const {
    Ranks ranks;
    for (const std::string& axis : split_names(axes)) {
      const bool is_near = std::ranges::find(near_, axis) != near_.end();
      (is_near ? ranks.near : ranks.far) *= shape_.size(axis);
    }
    return ranks;
  }

  std::int64_t bytes_of(const Node& node) const {
    const Ranks ranks = ranks_along(node.axes);
    const auto tensor = at(node.tensors.front());
    const FlatGroup& group =
        tensor < parameters_ ? values_[group_of_[tensor]] : gradients_[group_of_[tensor - parameters_]];
    const auto share = [&](std::int64_t bytes) { return bytes * (ranks.far - 1) / ranks.far; };
    if (node.kind == NodeKind::AllGather) {
      const bool is_coded = options_.weights == WeightWire::Int8 && node.axes == sharded_.axis;
      const std::int64_t coded = group.shards * static_cast<std::int64_t>(int8_bytes(group.shard_elements));
      return share(is_coded ? coded : group.bytes()) / ranks.near;
    }
    if (node.kind == NodeKind::ReduceScatter && options_.wire.int4) {
      const ScatterStage stage = scatter_stage(shape_, 0, sharded_.axis, options_.step.scatter_axes, node.axes);
      return stage.ranks <= 1 ? 0 : share(static_cast<std::int64_t>(stage.coded_bytes(group.shard_elements) / 2));
    }
    const std::int64_t elements = node.parts ? group.shard_elements : group.elements();
    const bool is_coded = options_.wire.codec != Codec::None;
    const std::int64_t bytes =
        is_coded ? static_cast<std::int64_t>(wire_bytes(options_.wire.codec, static_cast<std::uint64_t>(elements)))
                 : elements * static_cast<std::int64_t>(size_of(group.dtype));
    return share(bytes) * (node.kind == NodeKind::AllReduce ? 2 : 1) / ranks.near;
  }

  const DataParallelOptions& options_;
  const Factorisation& shape_;
  std::vector<std::string> near_;
  DataAxis sharded_;
  std::size_t parameters_;
  std::vector<std::size_t> group_of_;  // by parameter
  std::vector<FlatGroup> values_, gradients_;
};

}  // namespace

FarTraffic far_traffic(const std::vector<DataParameter>& given, const DataRow& row, const DataParallelOptions& options,
                       const Factorisation& shape, const std::string& near, std::int64_t passes) {
  const std::vector<DataParameter> parameters = complete_parameters(given);
  const StepPlan plan = plan_step(parameters, row, options.step);
  const TrafficCounter counter(parameters, row, options, shape, near, plan);
  const bool gathers = sharded_axis(row).parameter == Held::Sharded;
  const FarTraffic last = counter.of(plan.graph);
  const FarTraffic each = counter.of(without_sync(plan.graph, parameters.size(), gathers));
  return {last.weights + (passes - 1) * each.weights, last.gradients + (passes - 1) * each.gradients};
}

}  // namespace sinew::parallel
