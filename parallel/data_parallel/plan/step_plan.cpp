#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/common/at.hpp>
#include <sinew/parallel/data_parallel/plan/scheduled_step.hpp>
#include <sinew/parallel/data_parallel/plan/step_plan.hpp>
#include <sinew/parallel/mesh/axis_names.hpp>
#include <sinew/parallel/step_graph/optimizer/optimize.hpp>

namespace sinew::parallel {
namespace {

using Ids = std::vector<std::int32_t>;

bool is_order_of_all(const Ids& ready, std::size_t n) {
  Ids sorted = ready;
  std::ranges::sort(sorted);
  Ids all(n);
  std::iota(all.begin(), all.end(), 0);
  return sorted == all;
}

bool contains(const std::vector<std::string>& all, const std::string& axis) {
  return std::ranges::find(all, axis) != all.end();
}

/// Returns whether `axes` are some of the axes that shard parameters, but not all.
bool are_some_of(const std::string& axes, const DataAxis& sharded) {
  const std::vector<std::string> some = split_names(axes), all = split_names(sharded.axis);
  return sharded.parameter == Held::Sharded && some.size() < all.size() &&
         std::ranges::all_of(some, [&](const std::string& axis) { return contains(all, axis); });
}

/// The axes that shard, without `axes`.
std::string others_of(const std::string& axes, const DataAxis& sharded) {
  std::vector<std::string> others = split_names(sharded.axis);
  const std::vector<std::string> some = split_names(axes);
  std::erase_if(others, [&](const std::string& axis) { return contains(some, axis); });
  return fmt::format("{}", fmt::join(others, "-"));
}

/// Options beside an order that a schedule decides.
void complain_beside_order(std::vector<std::string>& wrong, const DataOptions& options) {
  if (options.reshard == Reshard::AfterBackward || !options.reshard_axes.empty() || !options.outer_unit.empty() ||
      options.gathered_bytes != 0)
    wrong.emplace_back(
        "reshard, reshard_axes, outer_unit or gathered_bytes beside an order of units, expected the order alone, "
        "because the schedule decides when units are gathered and freed");
}

void require_sound(const std::vector<DataParameter>& parameters, const DataRow& row, const Ids& ready,
                   const DataOptions& options) {
  std::vector<std::string> wrong = violations_of(row);
  if (!options.order.empty()) {
    complain_beside_order(wrong, options);
    std::ranges::move(violations_of(options.order, parameters, row), std::back_inserter(wrong));
  }
  const bool frees = options.reshard == Reshard::AfterForward;
  if (!options.reshard_axes.empty() && (!frees || !are_some_of(options.reshard_axes, sharded_axis(row))))
    wrong.push_back(
        fmt::format("reshard_axes '{}', expected some of the axes that shard parameters ('{}'), where they "
                    "are freed after the forward pass",
                    options.reshard_axes, sharded_axis(row).axis));
  if (!options.scatter_axes.empty() && !are_some_of(options.scatter_axes, sharded_axis(row)))
    wrong.push_back(fmt::format("scatter_axes '{}', expected some of the axes that shard parameters ('{}')",
                                options.scatter_axes, sharded_axis(row).axis));
  if (!options.outer_unit.empty() &&
      std::ranges::none_of(parameters, [&](const DataParameter& p) { return p.unit == options.outer_unit; }))
    wrong.push_back(fmt::format("outer_unit '{}', expected the unit of a parameter", options.outer_unit));
  std::set<std::string_view> paths;
  for (const DataParameter& p : parameters) {
    if (p.path.empty()) wrong.emplace_back("a parameter has no path");
    if (!paths.insert(p.path).second) wrong.push_back(fmt::format("'{}' is there twice", p.path));
    if (p.dtype != DType::F16 && p.dtype != DType::BF16 && p.dtype != DType::F32 && p.dtype != DType::F64)
      wrong.push_back(fmt::format("'{}' is of {}, expected f16, bf16, f32 or f64", p.path, name_of(p.dtype)));
    else if (p.elements > PTRDIFF_MAX / static_cast<std::int64_t>(size_of(p.dtype)))
      wrong.push_back(fmt::format("'{}' has {} elements, more than an address space", p.path, p.elements));
    if (p.gradient_dtype() != p.dtype && (size_of(p.dtype) != 2 || p.gradient_dtype() != DType::F32))
      wrong.push_back(fmt::format("the gradient of '{}' is of {}, expected {}, as the parameter is{}", p.path,
                                  name_of(p.gradient_dtype()), name_of(p.dtype),
                                  size_of(p.dtype) == 2 ? ", or f32" : ""));
    if (p.elements < 1) wrong.push_back(fmt::format("'{}' has {} elements, expected at least 1", p.path, p.elements));
    if (p.unit.empty()) wrong.push_back(fmt::format("'{}' belongs to no unit", p.path));
    if (p.uses < 1) wrong.push_back(fmt::format("'{}' is used {} times, expected at least once", p.path, p.uses));
  }
  if (!ready.empty() && !is_order_of_all(ready, parameters.size()))
    wrong.push_back(fmt::format("the order of gradients names {} of {} parameters, expected each once", ready.size(),
                                parameters.size()));
  if (!wrong.empty()) throw Error(Code::InvalidArgument, fmt::format("data parallelism: {}", fmt::join(wrong, "; ")));
}

class Planner {
 public:
  Planner(const std::vector<DataParameter>& parameters, const DataRow& row, const Ids& ready,
          const DataOptions& options, const ExchangePrices& prices)
      : parameters_(parameters), options_(options), prices_(prices), ready_(ready), sharded_(sharded_axis(row)) {
    for (std::int32_t i = 0; i < count(); ++i) {
      if (unit_of(i) != options_.outer_unit && std::ranges::find(units_, unit_of(i)) == units_.end())
        units_.push_back(unit_of(i));
    }
    if (ready_.empty()) {
      ready_.resize(parameters_.size());
      std::iota(ready_.rbegin(), ready_.rend(), 0);
    }
    for (const DataAxis& a : row.axes) {
      if (a.optimizer == Held::Whole) whole_ += (whole_.empty() ? "" : "-") + a.axis;
    }
    for (const DataParameter& p : parameters_) plan_.graph.tensors.push_back({p.path, p.path, p.dtype, p.elements});
    for (const DataParameter& p : parameters_)
      plan_.graph.tensors.push_back({p.path + " gradient", p.path, p.gradient_dtype(), p.elements, p.dtype});
  }

  StepPlan run() && {
    if (gathers()) {
      backward_by_unit();
    } else {
      backward();
      // Before the rest of the graph is there: what is sent together decides what lies together in memory.
      optimize({.removes = false, .merge = options_.buckets, .moves = false, .prices = prices_});
    }
    find_groups();
    add_exchanges();
    Ids parameters(parameters_.size());
    std::iota(parameters.begin(), parameters.end(), 0);
    optimize(
        {.most_in_flight = gathers() ? most_in_flight() : 0, .read_later = std::move(parameters), .prices = prices_});
    return std::move(plan_);
  }

 private:
  std::int32_t count() const noexcept { return static_cast<std::int32_t>(parameters_.size()); }
  const std::string& unit_of(std::int32_t parameter) const noexcept { return parameters_[at(parameter)].unit; }
  bool gathers() const noexcept { return sharded_.parameter == Held::Sharded; }
  /// Returns whether the unit stays gathered between its forward and its backward pass.
  bool stays(const std::string& unit) const noexcept {
    return options_.reshard == Reshard::AfterBackward || unit == options_.outer_unit || unit == units_.back();
  }
  bool has_outer() const noexcept { return !options_.outer_unit.empty(); }
  TensorId gradient(std::int32_t parameter) const noexcept { return count() + parameter; }

  void optimize(const ExchangeOptions& options) {
    OptimizedGraph optimized = optimize_exchanges(std::move(plan_.graph), options);
    plan_.graph = std::move(optimized.graph);
    plan_.report.append(std::move(optimized.report));
  }

  void add(Node node) { plan_.graph.nodes.push_back(std::move(node)); }
  void exchange(NodeKind kind, const Ids& tensors, const std::string& axes, bool parts = false) {
    add({.kind = kind, .tensors = tensors, .axes = axes, .exchange = next_, .parts = parts});
    add({.kind = NodeKind::Wait, .tensors = tensors, .exchange = next_++});
  }
  void report(std::int32_t p) {
    add({.kind = NodeKind::Signal,
         .name = "gradient " + parameters_[at(p)].path,
         .tensors = {gradient(p)},
         .times = parameters_[at(p)].uses});
  }
  void sum(const Ids& gradients) {
    const bool parts = sharded_.optimizer == Held::Sharded;
    const std::string& first = options_.scatter_axes.empty() ? sharded_.axis : options_.scatter_axes;
    exchange(parts ? NodeKind::ReduceScatter : NodeKind::AllReduce, gradients, parts ? first : whole_);
  }

  void backward() {
    for (const std::int32_t p : ready_) {
      report(p);
      sum({gradient(p)});
    }
  }

  /// The parameters of a unit, grouped by their dtype and by the dtype of their gradients.
  std::vector<Ids> groups_of(const std::string& unit) const {
    std::map<std::pair<DType, DType>, Ids> by_dtype;
    for (std::int32_t i = 0; i < count(); ++i) {
      if (unit_of(i) == unit) by_dtype[{parameters_[at(i)].dtype, parameters_[at(i)].gradient_dtype()}].push_back(i);
    }
    std::vector<Ids> groups;
    for (auto& [dtypes, ids] : by_dtype) groups.push_back(std::move(ids));
    return groups;
  }
  Ids parameters_of(const std::string& unit) const {
    Ids ids;
    for (std::int32_t i = 0; i < count(); ++i) {
      if (unit_of(i) == unit) ids.push_back(i);
    }
    return ids;
  }
  Ids gradients_of(Ids group) const {
    for (std::int32_t& id : group) id = gradient(id);
    return group;
  }

  void begin_backward(const std::string& unit) {
    add({.kind = NodeKind::Gate, .name = "backward " + unit, .tensors = parameters_of(unit)});
  }
  void end_backward(const std::string& unit) {
    for (const std::int32_t p : ready_) {
      if (unit_of(p) == unit) report(p);
    }
    add({.kind = NodeKind::Signal, .name = "backward done " + unit, .tensors = parameters_of(unit), .unchanged = true});
    for (const Ids& group : groups_of(unit)) sum(gradients_of(group));
  }
  void backward_by_unit() {
    if (has_outer()) begin_backward(options_.outer_unit);
    for (std::size_t u = units_.size(); u-- > 0;) {
      begin_backward(units_[u]);
      end_backward(units_[u]);
    }
    if (has_outer()) end_backward(options_.outer_unit);
  }

  void find_groups() {
    for (const Node& node : plan_.graph.nodes) {
      next_ = std::max(next_, node.exchange + 1);
      if (!is_exchange(node.kind)) continue;
      Ids group = node.tensors;
      for (std::int32_t& id : group) id -= count();
      std::ranges::sort(group);
      plan_.groups.push_back(std::move(group));
    }
  }

  void gather(const std::string& unit, const std::string& axes) {
    for (const Ids& group : groups_of(unit)) exchange(NodeKind::AllGather, group, axes);
  }

  void begin_forward(const std::string& unit) {
    gather(unit, sharded_.axis);
    add({.kind = NodeKind::Gate, .name = "forward " + unit, .tensors = parameters_of(unit)});
  }
  void end_forward(const std::string& unit) {
    add({.kind = NodeKind::Signal, .name = "forward done " + unit, .tensors = parameters_of(unit), .unchanged = true});
    if (!stays(unit)) add({.kind = NodeKind::Free, .tensors = parameters_of(unit), .axes = options_.reshard_axes});
  }
  void forward_by_unit() {
    if (has_outer()) begin_forward(options_.outer_unit);
    for (const std::string& unit : units_) {
      begin_forward(unit);
      end_forward(unit);
    }
    if (has_outer()) end_forward(options_.outer_unit);
  }

  /// Gathers a unit's parameters for its backward pass, during the backward passes of earlier units. If the gather came
  /// later, the gradients of these units would be sent first, and no compute would hide the gather.
  /// freed: a parameter of the unit whose backward pass has ended last. The gather waits for its memory. -1: there is
  /// none.
  /// Source: backward prefetch of PyTorch's FSDP (BACKWARD_PRE).
  void gather_again(const std::string& unit, TensorId freed) {
    if (stays(unit)) return;
    const std::size_t first = plan_.graph.nodes.size();
    gather(unit, options_.reshard_axes.empty() ? sharded_.axis : options_.reshard_axes);
    for (std::size_t i = first; i < plan_.graph.nodes.size(); ++i) {
      if (is_exchange(plan_.graph.nodes[i].kind)) plan_.graph.nodes[i].room_of = freed;
    }
  }

  /// Completes the graph, which so far has the backward pass and the first sum of each gradient. Adds the forward pass,
  /// gathers, frees, sums over the remaining axes, and the update.
  void add_exchanges() {
    const std::vector<Node> backward_pass = std::exchange(plan_.graph.nodes, {});
    if (gathers()) forward_by_unit();
    std::vector<std::string> next;  // units in the order of their backward passes
    for (const Node& node : backward_pass) {
      if (node.kind == NodeKind::Gate) next.push_back(unit_of(node.tensors.front()));
    }
    auto placed = next.begin();
    std::ptrdiff_t begun = 0;
    TensorId freed = -1;  // a parameter of the unit whose backward pass has ended last
    for (const Node& node : backward_pass) {
      const bool unit_ends = node.kind == NodeKind::Signal && node.name.starts_with("backward done");
      add(node);
      if (node.kind == NodeKind::Gate) {
        const std::ptrdiff_t until = std::min(++begun + units_ahead(), std::ssize(next));
        for (; placed < next.begin() + until; ++placed) gather_again(*placed, freed);
      }
      if (unit_ends) freed = node.tensors.front();
      if (unit_ends) add({.kind = NodeKind::Free, .tensors = node.tensors});
      if (node.kind != NodeKind::Wait || sharded_.optimizer == Held::Whole) continue;
      if (!options_.scatter_axes.empty())
        exchange(NodeKind::ReduceScatter, node.tensors, others_of(options_.scatter_axes, sharded_));
      if (!whole_.empty()) exchange(NodeKind::AllReduce, node.tensors, whole_, true);
      if (sharded_.gradient == Held::Sharded) add({.kind = NodeKind::Free, .tensors = node.tensors});
    }
    Ids all(parameters_.size());
    std::iota(all.begin(), all.end(), 0);
    add({.kind = NodeKind::Gate,
         .name = "optimizer",
         .tensors = gradients_of(all),
         .parts = sharded_.gradient == Held::Sharded});
    add({.kind = NodeKind::Signal, .name = "updated", .tensors = all});
    if (gathers() || sharded_.optimizer == Held::Whole) return;
    for (const Ids& group : plan_.groups) exchange(NodeKind::AllGather, group, sharded_.axis);
  }

  std::int64_t bytes_of(const std::string& unit) const noexcept {
    std::int64_t bytes = 0;
    for (std::int32_t p = 0; p < count(); ++p) {
      if (unit_of(p) == unit) bytes += plan_.graph.tensors[at(p)].bytes();
    }
    return bytes;
  }
  std::int64_t bytes_with_gradients(const std::string& unit) const noexcept {
    std::int64_t bytes = bytes_of(unit);
    for (std::int32_t p = 0; p < count(); ++p) {
      if (unit_of(p) == unit) bytes += plan_.graph.tensors[at(gradient(p))].bytes();
    }
    return bytes;
  }

  /// The number of units that are gathered ahead of the running one in the backward pass: as many as gathered_bytes has
  /// room for, with their gradients, but at least one.
  std::ptrdiff_t units_ahead() const {
    std::int64_t largest = 1;
    for (const std::string& unit : units_) largest = std::max(largest, bytes_with_gradients(unit));
    return std::max<std::int64_t>(options_.gathered_bytes / largest, 2) - 1;
  }

  std::int64_t most_in_flight() const {
    std::int64_t most = options_.gathered_bytes > 0 ? options_.gathered_bytes : two_units();
    // The outer unit stays gathered, and its gradients are sent last.
    if (has_outer()) most += bytes_with_gradients(options_.outer_unit);
    if (options_.reshard == Reshard::AfterForward) return most;
    for (const std::string& unit : units_) most += bytes_of(unit);
    return most;
  }

  /// The bytes of the largest two units that follow each other, with their gradients.
  std::int64_t two_units() const {
    std::int64_t most = 0, last = 0;
    for (const std::string& unit : units_) {
      const std::int64_t bytes = bytes_with_gradients(unit);
      most = std::max(most, last + bytes);
      last = bytes;
    }
    return most;
  }

  const std::vector<DataParameter>& parameters_;
  const DataOptions& options_;
  const ExchangePrices& prices_;
  Ids ready_;
  std::vector<std::string> units_;  // without the outer unit
  DataAxis sharded_;                // the axis that shards; its name is empty if no axis does
  std::string whole_;               // all other axes, flattened
  std::int32_t next_ = 0;
  StepPlan plan_;
};

}  // namespace

StepPlan plan_step(const std::vector<DataParameter>& given, const DataRow& row, const DataOptions& options,
                   const std::vector<std::int32_t>& ready, const ExchangePrices& prices) {
  const std::vector<DataParameter> parameters = complete_parameters(given);
  require_sound(parameters, row, ready, options);
  if (!options.order.empty()) return plan_scheduled_step(parameters, row, options.order);
  return Planner(parameters, row, ready, options, prices).run();
}

}  // namespace sinew::parallel
