#include "train_command.hpp"

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/config.hpp>
#include <sinew/core/dtype.hpp>
#include <sinew/core/error.hpp>
#include <sinew/parallel/planner/model/model_json.hpp>
#include <sinew/parallel/planner/model/named_models.hpp>
#include <sinew/parallel/planner/search/layout_text.hpp>
#include <sinew/parallel/planner/search/search.hpp>
#include <sinew/tools/common/command_line.hpp>
#include <sinew/tools/common/network_options.hpp>
#include <sinew/tools/common/progress.hpp>
#include <sinew/tools/common/whole_number.hpp>

#include "train_report.hpp"

namespace sinew::tools {
namespace {

namespace sp = parallel;

struct TrainOptions {
  std::string model, cluster, layout;
  NetworkShape network;
  std::int64_t global_batch = 0, sequence = 0;
  std::size_t top = 10;
  std::string memory, flops, memory_rate;
  std::optional<double> efficiency;
  bool stored = false, json = false, explain = false, zero_plus_plus = false, stage_actions = false;
  bool offload_shards = false;
  std::string store_rate, store;
  std::vector<std::string> offloaded, recomputed;
  std::string gradients = "f32";
};

/// "989e12", "3.35e12"
std::optional<double> rate_of(const char* option, const std::string& text) {
  if (text.empty()) return std::nullopt;
  try {
    std::size_t read = 0;
    const double value = std::stod(text, &read);
    if (read == text.size()) return value;
  } catch (const std::exception&) {  // not a number: said below
  }
  throw Error(Code::InvalidArgument, fmt::format("{} {}: expected a number per second, such as 989e12", option, text));
}

std::optional<std::int64_t> memory_of(const char* option, const std::string& text) {
  if (text.empty()) return std::nullopt;
  const std::uint64_t bytes = parse_bytes(text);
  if (bytes == 0 || bytes > INT64_MAX)
    throw Error(Code::InvalidArgument, fmt::format("{} {}: expected a size such as 80GiB", option, text));
  return static_cast<std::int64_t>(bytes);
}

/// "layers.3=full"
sp::RecomputedLayers recomputed_of(const std::string& text) {
  const std::size_t equals = text.find('=');
  for (const sp::Recompute r : {sp::Recompute::None, sp::Recompute::Selective, sp::Recompute::Full}) {
    if (equals != std::string::npos && text.substr(equals + 1) == name_of(r)) return {text.substr(0, equals), r};
  }
  throw Error(
      Code::InvalidArgument,
      fmt::format("--recompute-layers {}: expected NAME=none, =selective or =full, such as layers.3=full", text));
}

sp::PlanQuestion question_of(const TrainOptions& o) {
  sp::PlanQuestion q;
  q.model = sp::find_model(o.model);
  q.cluster = sp::cluster_spec(virtual_cluster_from(o.cluster, o.network),
                               {.flops = rate_of("--flops", o.flops),
                                .memory_bytes_per_s = rate_of("--memory-rate", o.memory_rate),
                                .memory_bytes = memory_of("--memory", o.memory)});
  q.sequence = o.sequence;
  q.global_batch = o.global_batch;
  q.attention = o.stored ? sp::AttentionMemory::Stored : sp::AttentionMemory::Blocks;
  if (o.efficiency) q.efficiency = *o.efficiency;
  q.zero_plus_plus = o.zero_plus_plus;
  q.stage_actions = o.stage_actions;
  q.store.bytes_per_s = rate_of("--store-rate", o.store_rate).value_or(0);
  q.store.bytes = memory_of("--store", o.store).value_or(0);
  q.offloads_shards = o.offload_shards;
  q.offloaded_activations = o.offloaded;
  for (const std::string& text : o.recomputed) q.recomputed.push_back(recomputed_of(text));
  q.precision.gradient = *dtype_from_name(o.gradients);
  return q;
}

int explain(sp::Planner& planner, const TrainOptions& o) {
  const sp::JobConfig config = sp::layout_from_text(planner.question(), o.layout);
  const std::vector<sp::Violation> broken = planner.violations(config);
  if (!broken.empty()) {  // a line for each
    std::cerr << fmt::format("sinew-sim train: layout of {} ranks breaks {} rule{}:\n{}\n", planner.question().ranks(),
                             broken.size(), broken.size() == 1 ? "" : "s", to_string(broken));
    return 2;
  }
  const sp::PlannedLayout layout = planner.plan(config);
  const std::int64_t most = planner.question().cluster.memory_bytes;
  std::cout << (o.json ? layout_json(planner, layout, most) + "\n" : layout_table(planner, layout, most));
  if (o.explain) std::cout << "\n" << planner.exchanges(config);
  return layout.memory.total() <= most ? 0 : 1;
}

/// Layouts that differ in what is sharded alone and take as long are one: the first takes the least memory.
void keep_distinct(std::vector<sp::PlannedLayout>& best, std::size_t most) {
  const auto rest_of = [](sp::JobConfig config) {
    config.zero = 0;
    return to_string(config);
  };
  std::vector<sp::PlannedLayout> kept;
  for (const sp::PlannedLayout& p : best) {
    const bool is_new = std::ranges::none_of(kept, [&](const sp::PlannedLayout& k) {
      return k.time.total() == p.time.total() && rest_of(k.config) == rest_of(p.config);
    });
    if (is_new && kept.size() < most) kept.push_back(p);
  }
  best = std::move(kept);
}

int plan(const TrainOptions& o) {
  sp::Planner planner(question_of(o));
  if (!o.layout.empty()) return explain(planner, o);
  Progress progress;
  const std::int64_t most = planner.question().cluster.memory_bytes;
  constexpr std::size_t kStages = 4;  // of zero, as many of which may take as long
  sp::PlanResult result = sp::search(
      planner, {.top = kStages * o.top,
                .progress = [&](const std::string& what, double share) { progress.show_share(share, what); }});
  keep_distinct(result.best, o.top);
  progress.clear();
  std::cout << (o.json ? plan_json(planner, result, most) + "\n" : plan_table(planner, result, most));
  return result.best.empty() ? 1 : 0;
}

constexpr const char* kDescription =
    "Plans a training job for a cluster that need not be here: every layout that breaks no rule and fits the "
    "memory,\n"
    "the fastest first, and why the others lose.";

void add_options(CLI::App& app, TrainOptions& o) {
  app.add_option("--model", o.model, fmt::format("a JSON file, or one of {}", fmt::join(sp::model_names(), ", ")))
      ->required();
  CLI::Option* cluster =
      app.add_option("--cluster", o.cluster, "machine, by name or file, and hosts: dgx-h100x64")->required();
  add_network_options(app, cluster, o.network);
  app.add_option("--global-batch", o.global_batch, "sequences of a step; if not given, 4 Mi tokens of them")
      ->transform(whole_number(1, std::int64_t{1} << 30));
  app.add_option("--sequence", o.sequence, "tokens of each; if not given, the model's context")
      ->transform(whole_number(1, std::int64_t{1} << 30));
  app.add_option("--top", o.top, "so many of the best layouts (10)")->transform(whole_number(1, 100'000));
  CLI::Option* layout =
      app.add_option("--layout", o.layout,
                     "explain this one instead: tp=8,pp=4,dp=..,cp=..,ep=..,zero=1,micro-batch=1,schedule=interleaved,"
                     "virtual-stages=2,recompute=selective,weights=int8,gradients=int4,near=8,budget=12GiB");
  CLI::Option* explain =
      app.add_flag("--explain", o.explain,
                   "with --layout: list the exchanges that the optimizer removes, merges and moves, and why")
          ->needs(layout);
  app.add_option("--memory", o.memory, "that a rank may take, such as 72GiB; if not given, all that it has");
  app.add_option("--efficiency", o.efficiency, "of the products of matrices: share of --flops that they get");
  app.add_option("--flops", o.flops,
                 "operations per second of a rank, of 16-bit elements: for a machine that is in no table");
  app.add_option("--memory-rate", o.memory_rate, "bytes per second of a rank's memory, likewise");
  app.add_option("--gradients", o.gradients, "element type that gradients are added up and summed in (f32)")
      ->check(CLI::IsMember({"f32", "bf16"}));
  app.add_flag("--stored-attention", o.stored, "scores of attention are kept, not made again block by block");
  app.add_flag("--zero++", o.zero_plus_plus,
               "also try ZeRO++ beside zero=3: int8 weights, int4 gradients, copies among the ranks of a host");
  app.add_flag("--stage-actions", o.stage_actions,
               "the program gathers and sums the parameters of a pipeline stage by stage, as its schedule says");
  app.add_option("--recompute-layers", o.recomputed,
                 "layers that recompute otherwise than their layout: layers.3=full,layers.4=none")
      ->delimiter(',');
  app.add_option("--offload-activations", o.offloaded,
                 "layers whose activations are in a store between their passes: layers, or layers.3,layers.4")
      ->delimiter(',');
  app.add_flag("--offload-shards", o.offload_shards,
               "shards of ZeRO 3 and the state of the optimizer are in a store; only such layouts");
  app.add_option("--store-rate", o.store_rate, "bytes per second of a rank's copies to its store, such as 25e9");
  app.add_option("--store", o.store, "room of a rank in its store, such as 256GiB; if not given, there is no limit");
  CLI::Option* json = app.add_flag("--json", o.json, "print one JSON object");
  explain->excludes(json);
  app.footer(
      "What is predicted from what: docs/planner.md. Layouts break rules as a Job would say it; those of one reason "
      "are\n"
      "one line, with the one that comes nearest and the nearest change that would do.\n\n"
      "Examples:\n"
      "  sinew-sim train --model gpt3-175b --cluster dgx-h100x64\n"
      "  sinew-sim train --model llama3-70b --cluster dgx-h100x32 --global-batch 1024 --sequence 8192 --top 5\n"
      "  sinew-sim train --model deepseek-v3 --cluster dgx-h200x256 --json\n"
      "  sinew-sim train --model my-model.json --cluster dgx-a100x16 --layout tp=8,pp=4,zero=1,micro-batch=2\n");
}

}  // namespace

int train_command(int argc, char** argv) {
  TrainOptions o;
  CLI::App app(kDescription, "sinew-sim train");
  add_options(app, o);
  return run(app, argc, argv, [&] { return plan(o); });
}

void add_train_command(CLI::App& app) {
  static TrainOptions unused;
  add_options(*app.add_subcommand("train", kDescription), unused);
}

}  // namespace sinew::tools
