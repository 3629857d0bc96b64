#include <algorithm>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/base/table.hpp>
#include <sinew/core/error.hpp>
#include <sinew/parallel/common/at.hpp>
#include <sinew/parallel/data_parallel/memory/flat_group.hpp>
#include <sinew/parallel/data_parallel/memory/memory_plan.hpp>
#include <sinew/parallel/data_parallel/memory/most_in_flight.hpp>
#include <sinew/parallel/data_parallel/memory/scatter_stage.hpp>
#include <sinew/parallel/data_parallel/plan/pass_graphs.hpp>
#include <sinew/parallel/data_parallel/plan/step_plan.hpp>
#include <sinew/parallel/optim/update_rule/state_layout.hpp>

namespace sinew::parallel {
namespace {

std::size_t bytes(std::int64_t n) noexcept { return static_cast<std::size_t>(n); }

class MemoryPlanner {
 public:
  MemoryPlanner(const std::vector<DataParameter>& parameters, const DataRow& row, const DataParallelOptions& options,
                const Factorisation& shape, const MemoryUse& use)
      : parameters_(parameters),
        options_(options),
        shape_(shape),
        use_(use),
        sharded_(sharded_axis(row)),
        shards_(sharded_.axis.empty() ? 1 : shape.size(sharded_.axis)),
        step_(plan_step(parameters, row, options.step)),
        group_of_(parameters.size()) {
    if (use.index && (*use.index < 0 || *use.index >= shards_))
      throw Error(Code::InvalidArgument,
                  fmt::format("memory plan: index {}, expected {}", *use.index,
                              shards_ == 1 ? "none or 0, because the row shards nothing"
                                           : fmt::format("0 to {}, of the {} ranks that shard", shards_ - 1, shards_)));
    for (const auto& members : step_.groups) {
      for (const std::int32_t p : members) group_of_[at(p)] = values_.size();
      values_.push_back(flat_group(parameters, members, shards_));
      gradients_.push_back(of_gradients(values_.back(), parameters));
    }
  }

  MemoryPlan run() {
    const auto held = [](const std::vector<FlatGroup>& groups, Held how) {
      std::size_t sum = 0;
      for (const FlatGroup& g : groups) sum += bytes(how == Held::Whole ? g.bytes() : g.shard_bytes());
      return sum;
    };
    set(Purpose::Parameter, held(values_, sharded_.parameter));
    set(Purpose::Gradient, held(gradients_, sharded_.gradient));
    set(Purpose::Optimizer, optimizer());
    set(Purpose::Residual, residual());
    if (sharded_.parameter == Held::Sharded || (!options_.step.order.empty() && sharded_.gradient == Held::Sharded)) {
      gathered();
    } else if (sharded_.gradient == Held::Sharded) {
      scattered();
    }
    set(Purpose::Underway, std::accumulate(plan_.underway.begin(), plan_.underway.end(), std::size_t{0}));
    return std::move(plan_);
  }

 private:
  void set(Purpose purpose, std::size_t to) { plan_.bytes[static_cast<std::size_t>(purpose)] = to; }

  std::size_t state_of(int index) const {
    if (std::holds_alternative<std::monostate>(use_.optimizer)) return 0;
    std::vector<ShardPart> parts;
    for (const FlatGroup& group : values_) {
      const std::vector<ShardPart> more = parts_of(group, parameters_, index);
      parts.insert(parts.end(), more.begin(), more.end());
    }
    std::ranges::sort(parts, {}, [](const ShardPart& p) { return std::pair(p.parameter, p.first); });
    const auto* sgd = std::get_if<SgdOptions>(&use_.optimizer);
    StateLayout state = sgd != nullptr ? StateLayout(*sgd) : StateLayout(std::get<AdamOptions>(use_.optimizer));
    for (const ShardPart& p : parts) (void)state.add(parameters_[at(p.parameter)].dtype, p.last - p.first);
    return state.bytes();
  }
  std::size_t optimizer() const {
    const int ranks = sharded_.optimizer == Held::Sharded ? shards_ : 1;
    if (use_.index || ranks == 1) return state_of(use_.index.value_or(0));
    std::size_t most = 0;
    for (int r = 0; r < ranks; ++r) most = std::max(most, state_of(r));
    return most;
  }

  std::size_t residual() const {
    std::size_t sum = 0;
    for (const Node& node : step_.graph.nodes) {
      const bool sums = node.kind == NodeKind::ReduceScatter || node.kind == NodeKind::AllReduce;
      if (!options_.wire.error_feedback || !sums || shape_.size(node.axes) == 1) continue;
      const FlatGroup& group = gradients_[group_of_[at(node.tensors.front()) - parameters_.size()]];
      sum += bytes(node.parts ? group.shard_bytes() : group.bytes());
    }
    return sum;
  }

  /// The codes of int4 gradients that an exchange sends and receives.
  std::size_t codes_of(const Node& exchange) const {
    if (exchange.kind != NodeKind::ReduceScatter) return 0;
    const ScatterStage stage = scatter_stage(shape_, 0, sharded_.axis, options_.step.scatter_axes, exchange.axes);
    if (stage.ranks <= 1) return 0;
    return stage.coded_bytes(gradients_[group_of_[at(exchange.tensors.front()) - parameters_.size()]].shard_elements);
  }

  /// Plans the memory of units whose parameters are gathered and freed, or whose gradients a schedule reduces.
  void gathered() {
    InFlightSizes sizes{.group_of = group_of_};
    sizes.ranks = [&](const std::string& axes) { return static_cast<std::size_t>(shape_.size(axes)); };
    if (options_.wire.int4) sizes.codes = [&](const Node& exchange) { return codes_of(exchange); };
    const bool gathers = sharded_.parameter == Held::Sharded;
    for (const FlatGroup& g : values_) sizes.parameter.push_back(gathers ? bytes(g.bytes()) : 0);
    for (const FlatGroup& g : gradients_) sizes.gradient.push_back(bytes(g.bytes()));
    std::vector<StepGraph> graphs{step_.graph, forward_graph(step_)};
    if (use_.accumulates) graphs.push_back(without_sync(step_.graph, parameters_.size(), gathers));
    MostInFlight most;
    for (const StepGraph& graph : graphs) {
      MostInFlight found = most_in_flight(graph, sizes, use_.accumulates);
      plan_.gathered = std::max(plan_.gathered, found.gathered);
      if (found.bytes > most.bytes) most = std::move(found);
    }
    plan_.underway = std::move(most.pieces);
  }

  /// Plans the memory of gradients that wait to be scattered: as many as there is room for, and at least the largest.
  void scattered() {
    std::vector<std::size_t> all;
    for (const FlatGroup& g : gradients_) all.push_back(bytes(g.bytes()));
    std::ranges::sort(all, std::greater());
    if (use_.accumulates || all.empty()) {
      plan_.underway = std::move(all);
      return;
    }
    const auto given = static_cast<std::size_t>(options_.step.gathered_bytes);
    const std::size_t room = std::max(given > 0 ? given : 2 * all.front(), all.front());
    const std::size_t bound = std::min(room, std::accumulate(all.begin(), all.end(), std::size_t{0}));
    std::size_t sum = 0;
    for (const std::size_t piece : all) {
      if (sum + piece > bound) continue;
      plan_.underway.push_back(piece);
      sum += piece;
    }
    if (sum < bound) plan_.underway.push_back(bound - sum);  // other gradients may fill all of the room
  }

  const std::vector<DataParameter>& parameters_;
  const DataParallelOptions& options_;
  const Factorisation& shape_;
  const MemoryUse& use_;
  DataAxis sharded_;
  int shards_;
  StepPlan step_;
  std::vector<std::size_t> group_of_;  // by parameter
  std::vector<FlatGroup> values_, gradients_;
  MemoryPlan plan_;
};

/// The unit in which a table shows its figures, and the bytes of this unit. most: the largest figure, in bytes.
std::pair<std::string_view, double> unit_of(std::size_t most) {
  if (most >= std::size_t{1} << 30) return {"GiB", 1 << 30};
  return most >= std::size_t{1} << 20 ? std::pair<std::string_view, double>("MiB", 1 << 20)
                                      : std::pair<std::string_view, double>("KiB", 1 << 10);
}

}  // namespace

std::size_t MemoryPlan::total() const noexcept { return std::accumulate(bytes.begin(), bytes.end(), std::size_t{0}); }

MemoryPlan plan_memory(const std::vector<DataParameter>& given, const DataRow& row, const DataParallelOptions& options,
                       const Factorisation& shape, const MemoryUse& use) {
  const std::vector<DataParameter> parameters = complete_parameters(given);
  return MemoryPlanner(parameters, row, options, shape, use).run();
}

std::string memory_table(std::span<const NamedMemory> plans) {
  std::size_t most = 0;
  for (const auto& [name, plan] : plans) most = std::max(most, plan.total());
  const auto [unit, factor] = unit_of(most);
  const auto in_units = [factor](std::size_t bytes) {
    return fmt::format("{:.2f}", static_cast<double>(bytes) / factor);
  };
  std::vector<Column> columns{{.name = std::string(unit)}};
  for (const char* name : {"parameters", "gradients", "optimizer", "underway", "residual", "sum"})
    columns.push_back({.name = name, .align = Align::Right, .width = 9});
  Table table(std::move(columns));
  for (const auto& [name, p] : plans)
    table.add({std::string(name), in_units(p.of(Purpose::Parameter)), in_units(p.of(Purpose::Gradient)),
               in_units(p.of(Purpose::Optimizer)), in_units(p.of(Purpose::Underway)), in_units(p.of(Purpose::Residual)),
               in_units(p.total())});
  return table.text();
}

void require_planned(std::size_t gathered, const MemoryPlan& plan) {
  if (gathered <= plan.gathered) return;
  throw std::logic_error(fmt::format("data parallelism: {} bytes of parameters gathered, of which {} were planned",
                                     gathered, plan.gathered));
}

}  // namespace sinew::parallel
