#include <sinew/parallel/job/data_strategy.hpp>
#include <sinew/parallel/mesh/layout.hpp>

namespace sinew::parallel {

DataStrategy data_strategy(int ranks, const JobConfig& config, const EngineFacts& engine) {
  Factorisation shape = Layout(ranks, config.layout).dense();
  const std::string row = row_name(config);
  std::vector<std::string> axes{"cp-dp"};
  std::string all = axes.front(), samples = "dp";
  if (row == "hsdp") {
    shape = shape.split("dp", {{"shard", data_ranks(ranks, config) / config.replicas}, {"replica", config.replicas}});
    axes = {"cp-shard", "replica"};
    all = "cp-shard-replica";
    samples = "shard-replica";
  }
  std::vector<std::string> groups = axes;
  groups.emplace_back("tp");
  if (axes.size() > 1) groups.push_back(all);

  DataParallelOptions options{};
  options.gradients = ReduceOp::Sum;
  options.determinism = config.determinism;
  options.wire = {.codec = config.codec, .error_feedback = config.error_feedback};
  options.step.reshard = config.reshard;
  options.step.gathered_bytes = config.prefetch_bytes;
  options.step.outer_unit = engine.outer_unit;

  std::vector<int> sizes;
  for (const std::string& axis : axes) sizes.push_back(shape.size(axis));
  return {std::move(shape),    std::move(groups), std::move(all),  std::move(samples),
          data_row(row, axes), options,           std::move(sizes)};
}

}  // namespace sinew::parallel
