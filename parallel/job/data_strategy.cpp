#include <sinew/parallel/job/data_strategy.hpp>
#include <sinew/parallel/mesh/layout.hpp>

namespace sinew::parallel {

namespace {

DataParallelOptions options_of(const JobConfig& config) {
  DataParallelOptions options{};
  options.gradients = ReduceOp::Sum;
  options.determinism = config.determinism;
  options.wire = {.codec = config.codec, .error_feedback = config.error_feedback, .int4 = config.int4_gradients};
  options.weights = config.weights;
  options.step.reshard = config.reshard;
  options.step.gathered_bytes = config.prefetch_bytes;
  return options;
}

std::vector<int> sizes_of(const Factorisation& shape, const std::vector<std::string>& axes) {
  std::vector<int> sizes;
  for (const std::string& axis : axes) sizes.push_back(shape.size(axis));
  return sizes;
}

}  // namespace

DataStrategy data_strategy(int ranks, const JobConfig& config, const EngineFacts& engine) {
  const Layout layout(ranks, config.layout);
  const bool two_levels = layout.levels() > 1;
  Factorisation shape = two_levels ? layout.by_level() : layout.dense();
  const std::string row = row_name(config), context = two_levels ? "cp0-cp1" : "cp";
  std::vector<std::string> axes{context + "-dp"};
  std::string all = axes.front(), samples = "dp";
  if (row == "hsdp") {
    shape = shape.split("dp", {{"shard", data_ranks(ranks, config) / config.replicas}, {"replica", config.replicas}});
    axes = {context + "-shard", "replica"};
    all = context + "-shard-replica";
    samples = "shard-replica";
  }
  std::string near;
  if (config.near_ranks > 1) {
    const std::string cut = row == "hsdp" ? "shard" : "dp";
    shape = shape.split(cut, {{"near", config.near_ranks}, {"far", shape.size(cut) / config.near_ranks}});
    axes.front() = context + "-near-far";
    all = row == "hsdp" ? axes.front() + "-replica" : axes.front();
    samples = row == "hsdp" ? "near-far-replica" : "near-far";
    near = context + "-near";
  }
  std::vector<std::string> groups = axes;
  for (const char* group : {"tp", "pp", "tp-pp"}) groups.emplace_back(group);
  const std::string sharers = two_levels ? "cp0" : "", ring = two_levels ? "cp1" : "cp";
  for (const std::string& group : {sharers, ring, two_levels ? context : ""}) {
    if (!group.empty()) groups.push_back(group);
  }
  if (axes.size() > 1) groups.push_back(all);
  if (!near.empty()) groups.insert(groups.end(), {near, "far"});
  if (engine.experts > 0 && config.layout.tp > 1) groups.push_back("tp-" + context);  // who share sequences

  DataParallelOptions options = options_of(config);
  options.device = engine.device;
  if (stages(config) == 1) options.step.outer_unit = engine.outer_unit;
  if (config.reshard == Reshard::AfterForward) options.step.reshard_axes = near;
  if (config.int4_gradients) options.step.scatter_axes = near;
  std::vector<int> sizes = sizes_of(shape, axes);
  return {std::move(shape),    std::move(groups), std::move(all),   std::move(samples), context, sharers, ring,
          data_row(row, axes), options,           std::move(sizes), std::move(near)};
}

DataStrategy expert_strategy(int ranks, const JobConfig& config) {
  Factorisation shape = Layout(ranks, config.layout).expert();
  const std::string row = row_name(config);
  std::vector<std::string> axes{"edp"};
  std::string all = "edp";
  if (row == "hsdp") {
    shape = shape.split("edp", {{"shard", shape.size("edp") / config.replicas}, {"replica", config.replicas}});
    axes = {"shard", "replica"};
    all = "shard-replica";
  }
  std::vector<std::string> groups = axes;
  if (axes.size() > 1) groups.push_back(all);
  // Where elements differ: of what etp cuts, and of what its ranks have copies of.
  for (const char* group : {"ep", "etp", "pp", "ep-pp", "etp-pp", "etp-ep-pp"}) groups.emplace_back(group);
  std::vector<int> sizes = sizes_of(shape, axes);
  return {std::move(shape),   std::move(groups), all, all, "", "", "", data_row(row, axes),
          options_of(config), std::move(sizes)};
}

}  // namespace sinew::parallel
