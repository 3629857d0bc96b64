#include <sinew/parallel/job/data_strategy.hpp>
#include <sinew/parallel/mesh/layout.hpp>

namespace sinew::parallel {

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
  std::vector<std::string> groups = axes;
  groups.emplace_back("tp");
  if (config.layout.pp > 1) {
    groups.emplace_back("pp");
    groups.emplace_back("tp-pp");
  }
  const std::string sharers = two_levels ? "cp0" : "", ring = two_levels ? "cp1" : "cp";
  for (const std::string& group : {sharers, ring, two_levels ? context : ""}) {
    if (!group.empty()) groups.push_back(group);
  }
  if (axes.size() > 1) groups.push_back(all);

  DataParallelOptions options{};
  options.gradients = ReduceOp::Sum;
  options.determinism = config.determinism;
  options.wire = {.codec = config.codec, .error_feedback = config.error_feedback};
  options.step.reshard = config.reshard;
  options.step.gathered_bytes = config.prefetch_bytes;
  if (stages(config) == 1) options.step.outer_unit = engine.outer_unit;

  std::vector<int> sizes;
  for (const std::string& axis : axes) sizes.push_back(shape.size(axis));
  return {std::move(shape),    std::move(groups), std::move(all),  std::move(samples), context, sharers, ring,
          data_row(row, axes), options,           std::move(sizes)};
}

}  // namespace sinew::parallel
