#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/job/engine_rules.hpp>
#include <sinew/parallel/job/pipeline_schedule.hpp>
#include <sinew/parallel/mesh/layout_table.hpp>
#include <sinew/parallel/pipeline/generators/generators.hpp>
#include <sinew/parallel/pipeline/schedule/action_text.hpp>

namespace sinew::parallel {
namespace {

Finding judge_engine_axes(const JobRequest& asked) {
  std::vector<std::string> over;
  for (const SizeField& f : kSizeFields) {
    const int size = asked.config.layout.*f.value;
    if (size > 1 && std::ranges::find(asked.engine->axes, f.name) == asked.engine->axes.end())
      over.push_back(fmt::format("{} {}", f.name, size));
  }
  if (over.empty()) return "";
  return fmt::format("{}, and this engine is cut along {} only", fmt::join(over, ", "),
                     fmt::join(asked.engine->axes, ", "));
}

AllChanges engine_axes_changes(const JobRequest& asked) {
  JobChange change{"", asked};
  std::vector<std::string> ones;
  for (const SizeField& f : kSizeFields) {
    int& size = change.to.config.layout.*f.value;
    if (size <= 1 || std::ranges::find(asked.engine->axes, f.name) != asked.engine->axes.end()) continue;
    size = 1;
    ones.push_back(fmt::format("{} 1", f.name));
  }
  change.text = fmt::format("{}", fmt::join(ones, ", "));
  return {{change}};
}

Finding judge_engine_parts(const JobRequest& asked) {
  if (judge_engine_axes(asked) != "") return std::nullopt;
  const int tp = asked.config.layout.tp, most = asked.engine->most_tp;
  return tp <= most || tp <= 1 ? ""
                               : fmt::format("tp {}, and this engine has {} part{}", tp, most, most == 1 ? "" : "s");
}

/// Divisors of the ranks up to `most` in a size of the layout, the largest first.
JobChanges to_sizes(const JobRequest& asked, int LayoutSizes::*field, std::string_view name, std::int64_t most) {
  JobChanges all;
  std::vector<std::int64_t> sizes = divisors_of(std::max(asked.ranks, 1));
  std::ranges::sort(sizes, std::greater{});
  for (const std::int64_t size : sizes) {
    if (size > most) continue;
    JobChange change{fmt::format("{} {}", name, size), asked};
    change.to.config.layout.*field = static_cast<int>(size);
    all.push_back(std::move(change));
  }
  return all;
}

JobChanges tp_changes(const JobRequest& asked) {
  return to_sizes(asked, &LayoutSizes::tp, "tp", asked.engine->most_tp);
}

Finding judge_sequence_parallel(const JobRequest& asked) {
  if (!asked.config.sequence_parallel) return "";
  if (!asked.engine->sequence_parallel) return "sequence-parallel, and this engine cannot cut its rows";
  return asked.config.layout.tp > 1 ? "" : fmt::format("sequence-parallel with tp {}", asked.config.layout.tp);
}

Finding judge_engine_context(const JobRequest& asked) {
  if (judge_engine_axes(asked) != "") return std::nullopt;
  const std::int64_t cp = asked.config.layout.cp, most = asked.engine->most_cp;
  return cp <= most || cp <= 1 ? "" : fmt::format("cp {}, and a sample has {} part{}", cp, most, most == 1 ? "" : "s");
}

JobChanges context_changes(const JobRequest& asked) {
  JobChanges all = to_sizes(asked, &LayoutSizes::cp, "cp", asked.engine->most_cp);
  for (JobChange& change : all) change.to.config.layout.cp_levels.clear();
  return all;
}

/// Heads that each tensor-parallel rank has at least.
int least_heads(const JobRequest& asked) {
  return std::max(asked.engine->most_tp / std::max(asked.config.layout.tp, 1), 1);
}

bool has_experts(const JobRequest& asked) { return judge_engine_axes(asked) == "" && asked.engine->experts > 0; }

Finding judge_expert_parts(const JobRequest& asked) {
  if (judge_engine_axes(asked) != "") return std::nullopt;
  if (!has_experts(asked)) return "";
  const LayoutSizes& l = asked.config.layout;
  std::vector<std::string> over;
  if (l.ep > asked.engine->experts)
    over.push_back(fmt::format("ep {}, and a layer has {} experts", l.ep, asked.engine->experts));
  if (l.etp > asked.engine->most_etp)
    over.push_back(fmt::format("etp {}, and an expert has {} parts", l.etp, asked.engine->most_etp));
  return fmt::format("{}", fmt::join(over, "; "));
}

AllChanges expert_parts_changes(const JobRequest& asked) {
  const EngineFacts& engine = *asked.engine;
  JobChanges etp = to_sizes(asked, &LayoutSizes::etp, "etp", engine.most_etp);
  if (asked.config.layout.ep <= engine.experts) return {std::move(etp)};
  JobChanges ep = to_sizes(asked, &LayoutSizes::ep, "ep", engine.experts);
  if (asked.config.layout.etp <= engine.most_etp) return {std::move(ep)};
  for (JobChange& change : ep) {
    change.to.config.layout.etp = 1;
    change.text += ", etp 1";
  }
  return {std::move(ep)};
}

Finding judge_expert_tokens(const JobRequest& asked) {
  if (judge_engine_axes(asked) != "") return std::nullopt;
  const int tp = asked.config.layout.tp;
  if (!has_experts(asked) || tp <= 1 || asked.config.sequence_parallel) return "";
  return fmt::format("tp {} without sequence parallelism: its ranks would route the same tokens", tp);
}

Finding judge_expert_replicas(const JobRequest& asked) {
  if (judge_engine_axes(asked) != "") return std::nullopt;
  const JobConfig& c = asked.config;
  if (!has_experts(asked) || c.zero != 3 || c.replicas <= 1) return "";
  const std::int64_t shared = product_of({c.layout.ep, c.layout.etp, c.layout.pp});
  if (shared < 1 || asked.ranks % shared != 0) return std::nullopt;
  const std::int64_t copies = asked.ranks / shared;
  return copies % c.replicas == 0
             ? ""
             : fmt::format("{} replicas of what {} ranks with copies of an expert shard", c.replicas, copies);
}

Finding judge_context_levels(const JobRequest& asked) {
  const std::vector<int>& levels = asked.config.layout.cp_levels;
  if (levels.size() > 2)
    return fmt::format("cp has {} levels: ranks that share heads, and rings of these", levels.size());
  if (judge_engine_axes(asked) != "") return std::nullopt;
  const int sharers = head_sharers(asked.config), heads = least_heads(asked);
  return sharers <= heads ? ""
                          : fmt::format("{} ranks share the {} head{} of each", sharers, heads, heads == 1 ? "" : "s");
}

JobChanges context_levels_changes(const JobRequest& asked) {
  JobChanges all;
  const int cp = std::max(asked.config.layout.cp, 1);
  std::vector<std::int64_t> sharers = divisors_of(cp);
  std::ranges::sort(sharers, std::greater{});
  for (const std::int64_t of : sharers) {
    if (of > least_heads(asked)) continue;
    JobChange change{fmt::format("cp_levels {}, {}", of, cp / of), asked};
    change.to.config.layout.cp_levels = {static_cast<int>(of), static_cast<int>(cp / of)};
    all.push_back(std::move(change));
  }
  return all;
}

Finding judge_pipeline(const JobRequest& asked) {
  if (judge_engine_axes(asked) != "") return std::nullopt;
  const int virtual_stages = asked.config.virtual_stages;
  if (virtual_stages < 1) return fmt::format("{} virtual stages", virtual_stages);
  if (asked.config.layout.pp < 1) return std::nullopt;
  const std::int64_t all = std::int64_t{asked.config.layout.pp} * virtual_stages;
  const int most = asked.engine->most_pp;
  return all <= most || all <= 1
             ? ""
             : fmt::format("{} stages, and this engine has {} block{}", all, most, most == 1 ? "" : "s");
}

AllChanges pipeline_changes(const JobRequest& asked) {
  JobChanges pp = to_sizes(asked, &LayoutSizes::pp, "pp", asked.ranks);
  const int most = std::max(asked.engine->most_pp / std::max(asked.config.layout.pp, 1), 1);
  return {to_each(asked, &JobConfig::virtual_stages, "virtual_stages", {most, 1}), std::move(pp)};
}

/// A text about the first action of a schedule that the engine would not do. Empty: it would do all of them.
std::string ignored_actions(const PipelineSchedule& schedule, const JobRequest& asked) {
  for (const std::vector<Action>& of_rank : schedule.actions) {
    for (const Action& action : of_rank) {
      if (!has_micro_batch(action.kind) && !asked.engine->takes_stage_actions)
        return fmt::format("schedule {} has {}, and this engine gathers and sums all stages of a rank at once",
                           asked.config.schedule, to_string(action));
      if (action.kind == ActionKind::Recompute && asked.config.recompute == Recompute::None)
        return fmt::format("schedule {} has {}, and recompute none keeps all activations", asked.config.schedule,
                           to_string(action));
    }
  }
  return {};
}

Finding judge_schedule(const JobRequest& asked) {
  if (judge_pipeline(asked) != "" || asked.config.micro_batches < 1) return std::nullopt;
  const bool is_file = asked.config.schedule.ends_with(".csv");
  if (stages(asked.config) <= 1 && is_file) return "";
  try {
    if (stages(asked.config) <= 1) {  // nothing runs by it, but it may be a slip of the pen
      static_cast<void>(make_schedule(asked.config.schedule, 1, 1));
      return "";
    }
    const PipelineSchedule schedule = schedule_of(asked.config);
    if (const std::string ignored = ignored_actions(schedule, asked); !ignored.empty()) return ignored;
    if (!has_late_weights(schedule) || asked.config.recompute == Recompute::None) return "";
  } catch (const Error& e) {
    return e.what();
  }
  return fmt::format("schedule {} makes gradients of weights later, of activations that recompute {} does not keep",
                     asked.config.schedule, name_of(asked.config.recompute));
}

AllChanges schedule_changes(const JobRequest& asked) {
  JobChanges all;
  all.push_back(changed(asked, &JobConfig::schedule, std::string("1f1b"), "schedule 1f1b"));
  for (const NamedGenerator& generator : generators())
    all.push_back(
        changed(asked, &JobConfig::schedule, std::string(generator.name), fmt::format("schedule {}", generator.name)));
  JobChanges virtual_stages;
  if (const NamedGenerator* const generator = find_generator(asked.config.schedule))
    virtual_stages = to_each(asked, &JobConfig::virtual_stages, "virtual_stages", {generator->least_virtual_stages});
  JobChanges recompute;
  for (const Recompute r : {Recompute::None, Recompute::Selective, Recompute::Full})
    recompute.push_back(changed(asked, &JobConfig::recompute, r, fmt::format("recompute {}", name_of(r))));
  return {std::move(all), std::move(virtual_stages), std::move(recompute)};
}

Finding judge_decomposed(const JobRequest& asked) {
  return asked.config.decomposed && !asked.config.sequence_parallel
             ? "tensor-parallel layers are decomposed, and their rows are not cut between them"
             : "";
}

/// With as many ranks that share layers as there must be: more than one.
JobChanges sequence_parallel_changes(const JobRequest& asked) {
  JobChanges all{changed(asked, &JobConfig::sequence_parallel, true, "sequence-parallel")};
  for (JobChange& change : tp_changes(asked)) {
    if (change.to.config.layout.tp < 2) continue;
    change.to.config.sequence_parallel = true;
    change.text = asked.config.sequence_parallel ? change.text : "sequence-parallel with " + change.text;
    all.insert(all.begin() + 1, std::move(change));  // the smallest first
  }
  return all;
}

}  // namespace

bool fits_engine(const JobRequest& asked) {
  for (const auto& judge :
       {judge_engine_axes, judge_engine_parts, judge_engine_context, judge_expert_parts, judge_expert_tokens,
        judge_expert_replicas, judge_context_levels, judge_pipeline, judge_schedule}) {
    if (judge(asked) != "") return false;
  }
  return true;
}

std::vector<JobRule> engine_rules() {
  const auto one_replica = set_to(&JobConfig::replicas, 1, "replicas 1");
  const auto plain = set_to(&JobConfig::sequence_parallel, false, "not sequence-parallel");
  const auto together = set_to(&JobConfig::decomposed, false, "not decomposed");
  return {
      {"engine_axes", judge_engine_axes, engine_axes_changes},
      {"engine_parts", judge_engine_parts, any_of(tp_changes)},
      {"engine_context", judge_engine_context, any_of(context_changes)},
      {"expert_parts", judge_expert_parts, expert_parts_changes},
      {"expert_tokens", judge_expert_tokens, any_of(set_to(&JobConfig::sequence_parallel, true, "sequence-parallel"))},
      {"expert_replicas", judge_expert_replicas, any_of(one_replica)},
      {"context_levels", judge_context_levels, any_of(context_levels_changes)},
      {"pipeline", judge_pipeline, pipeline_changes},
      {"schedule", judge_schedule, schedule_changes},
      {"sequence_parallel", judge_sequence_parallel, any_of(plain, sequence_parallel_changes)},
      {"decomposed", judge_decomposed, any_of(together, sequence_parallel_changes)},
  };
}

}  // namespace sinew::parallel
