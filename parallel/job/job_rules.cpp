#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/determinism.hpp>
#include <sinew/core/error.hpp>
#include <sinew/parallel/data/gradient_wire.hpp>
#include <sinew/parallel/job/job_changes.hpp>
#include <sinew/parallel/job/job_rules.hpp>
#include <sinew/parallel/job/pipeline_schedule.hpp>
#include <sinew/parallel/job/predicted_memory.hpp>
#include <sinew/parallel/mesh/layout_rules.hpp>
#include <sinew/parallel/mesh/layout_table.hpp>
#include <sinew/parallel/pipeline/generators.hpp>

namespace sinew::parallel {
namespace {

using AllChanges = std::vector<JobChanges>;  // of each setting

constexpr std::int64_t kMostSamples = std::int64_t{1} << 30;

bool is_16_bits(DType dtype) noexcept { return size_of(dtype) == 2; }

/// 0: not to be judged.
int judged_data_ranks(const JobRequest& asked) {
  return violations(asked.ranks, asked.config.layout).empty() ? data_ranks(asked.ranks, asked.config) : 0;
}

JobChange to_dtype(const JobRequest& asked, DType Precision::*of, std::string_view name, DType dtype) {
  JobChange change{fmt::format("{} {}", name, name_of(dtype)), asked};
  change.to.config.precision.*of = dtype;
  return change;
}

// --- the engine -------------------------------------------------------------------------------------------------

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

JobChanges tp_changes(const JobRequest& asked) {
  JobChanges all;
  std::vector<std::int64_t> sizes = divisors_of(std::max(asked.ranks, 1));
  std::ranges::sort(sizes, std::greater{});
  for (const std::int64_t tp : sizes) {
    if (tp > asked.engine->most_tp) continue;
    JobChange change{fmt::format("tp {}", tp), asked};
    change.to.config.layout.tp = static_cast<int>(tp);
    all.push_back(std::move(change));
  }
  return all;
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

JobChanges cp_changes(const JobRequest& asked) {
  JobChanges all;
  std::vector<std::int64_t> sizes = divisors_of(std::max(asked.ranks, 1));
  std::ranges::sort(sizes, std::greater{});
  for (const std::int64_t cp : sizes) {
    if (cp > asked.engine->most_cp) continue;
    JobChange change{fmt::format("cp {}", cp), asked};
    change.to.config.layout.cp = static_cast<int>(cp);
    change.to.config.layout.cp_levels.clear();
    all.push_back(std::move(change));
  }
  return all;
}

/// Heads that each tensor-parallel rank has at least.
int least_heads(const JobRequest& asked) {
  return std::max(asked.engine->most_tp / std::max(asked.config.layout.tp, 1), 1);
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
  JobChanges pp;
  for (const std::int64_t of : divisors_of(std::max(asked.ranks, 1))) {
    JobChange change{fmt::format("pp {}", of), asked};
    change.to.config.layout.pp = static_cast<int>(of);
    pp.push_back(std::move(change));
  }
  std::ranges::reverse(pp);
  const int most = std::max(asked.engine->most_pp / std::max(asked.config.layout.pp, 1), 1);
  return {to_each(asked, &JobConfig::virtual_stages, "virtual_stages", {most, 1}), std::move(pp)};
}

Finding judge_schedule(const JobRequest& asked) {
  if (judge_pipeline(asked) != "" || asked.config.micro_batches < 1) return std::nullopt;
  if (stages(asked.config) <= 1) return "";
  try {
    if (asked.config.recompute == Recompute::None || !has_late_weights(schedule_of(asked.config))) return "";
  } catch (const Error& e) {
    return e.what();
  }
  return fmt::format("schedule {} makes gradients of weights later, of activations that recompute {} does not keep",
                     asked.config.schedule, name_of(asked.config.recompute));
}

AllChanges schedule_changes(const JobRequest& asked) {
  JobChanges all;
  for (const NamedGenerator& generator : generators())
    all.push_back(
        changed(asked, &JobConfig::schedule, std::string(generator.name), fmt::format("schedule {}", generator.name)));
  return {std::move(all), JobChanges{changed(asked, &JobConfig::recompute, Recompute::None, "recompute none")}};
}

Finding judge_decomposed(const JobRequest& asked) {
  return asked.config.decomposed && !asked.config.sequence_parallel ? "decomposed, and rows are not cut between layers"
                                                                    : "";
}

// --- what is sharded --------------------------------------------------------------------------------------------

Finding judge_zero(const JobRequest& asked) {
  const int zero = asked.config.zero;
  return zero < 0 || zero > 3 ? fmt::format("zero {}", zero) : "";
}

JobChanges zero_changes(const JobRequest& asked) { return to_each(asked, &JobConfig::zero, "zero", {0, 1, 2, 3}); }

Finding judge_replicas(const JobRequest& asked) {
  const int replicas = asked.config.replicas, data = judged_data_ranks(asked);
  if (replicas < 1) return fmt::format("{} replicas", replicas);
  if (data == 0) return std::nullopt;
  if (data % replicas == 0) return "";
  return fmt::format("{} replicas of what {} data-parallel ranks shard", replicas, data);
}

JobChanges replicas_changes(const JobRequest& asked) {
  return to_each(asked, &JobConfig::replicas, "replicas", divisors_of(std::max(judged_data_ranks(asked), 1)));
}

Finding judge_replicas_shard(const JobRequest& asked) {
  if (asked.config.replicas <= 1 || asked.config.zero == 3) return "";
  return fmt::format("{} replicas with zero {}, which does not shard parameters", asked.config.replicas,
                     asked.config.zero);
}

Finding judge_reshard(const JobRequest& asked) {
  if (asked.config.reshard == Reshard::AfterForward || asked.config.zero == 3) return "";
  return fmt::format("parameters stay until the backward pass, and zero {} does not gather any", asked.config.zero);
}

Finding judge_prefetch(const JobRequest& asked) {
  const std::int64_t bytes = asked.config.prefetch_bytes;
  if (bytes < 0) return fmt::format("{} bytes", bytes);
  if (bytes == 0 || asked.config.zero >= 2) return "";
  return fmt::format("a limit of {} bytes, and with zero {} nothing is gathered or scattered ahead", bytes,
                     asked.config.zero);
}

// --- numbers ----------------------------------------------------------------------------------------------------

Finding judge_parameter(const JobRequest& asked) {
  const DType dtype = asked.config.precision.parameter;
  const bool fits = dtype == DType::F64 || dtype == DType::F32 || dtype == DType::BF16 || dtype == DType::F16;
  return fits ? "" : fmt::format("parameters of {}", name_of(dtype));
}

Finding judge_gradient(const JobRequest& asked) {
  const Precision& p = asked.config.precision;
  if (judge_parameter(asked) != "") return std::nullopt;
  if (p.gradient == p.parameter || (p.gradient == DType::F32 && is_16_bits(p.parameter))) return "";
  return fmt::format("gradients of {} for parameters of {}", name_of(p.gradient), name_of(p.parameter));
}

Finding judge_output(const JobRequest& asked) {
  const Precision& p = asked.config.precision;
  if (judge_parameter(asked) != "") return std::nullopt;
  const DType computed = p.parameter == DType::F64 ? DType::F64 : DType::F32;
  if (p.output == computed || (p.output == DType::BF16 && computed == DType::F32)) return "";
  return fmt::format("outputs of {} where {} is computed in", name_of(p.output), name_of(computed));
}

AllChanges precision_changes(const JobRequest& asked) {
  AllChanges all;
  for (const auto& [of, name] : {std::pair(&Precision::gradient, "gradients"),
                                 {&Precision::output, "outputs"},
                                 {&Precision::parameter, "parameters"}}) {
    JobChanges to;
    for (const DType dtype : {DType::F32, DType::BF16, DType::F64}) to.push_back(to_dtype(asked, of, name, dtype));
    all.push_back(std::move(to));
  }
  return all;
}

Finding judge_codec(const JobRequest& asked) {
  const JobConfig& c = asked.config;
  if (c.codec == Codec::None) return "";
  if (c.determinism != Determinism::Fast)
    return fmt::format("codec {} and {}: what is rounded on the way depends on the way", name_of(c.codec),
                       name_of(c.determinism));
  if (judge_gradient(asked) != "") return std::nullopt;
  if (c.precision.gradient == DType::F32) return "";
  return fmt::format("codec {} of gradients of {}", name_of(c.codec), name_of(c.precision.gradient));
}

AllChanges codec_changes(const JobRequest& asked) {
  return {{changed(asked, &JobConfig::codec, Codec::None, "codec none")},
          {to_dtype(asked, &Precision::gradient, "gradients", DType::F32)},
          {changed(asked, &JobConfig::determinism, Determinism::Fast, "determinism fast")}};
}

Finding judge_feedback(const JobRequest& asked) {
  return asked.config.error_feedback && asked.config.codec == Codec::None ? "no codec, so nothing is lost" : "";
}

Finding judge_determinism(const JobRequest& asked) {
  if (asked.config.determinism != Determinism::LayoutInvariant) return "";
  return "layout_invariant, and the sum over a rank's samples shows how many it has";
}

// --- batches ----------------------------------------------------------------------------------------------------

Finding judge_global_batch(const JobRequest& asked) {
  const std::int64_t batch = asked.config.global_batch;
  if (batch < 1 || batch > kMostSamples) return fmt::format("{} samples, of 1 to {}", batch, kMostSamples);
  const int data = judged_data_ranks(asked);
  if (data == 0) return std::nullopt;
  return batch % data == 0 ? "" : fmt::format("{} samples for {} data-parallel ranks", batch, data);
}

AllChanges global_batch_changes(const JobRequest& asked) {
  const std::int64_t data = std::max(judged_data_ranks(asked), 1);
  const std::int64_t below = std::clamp<std::int64_t>(asked.config.global_batch, 0, kMostSamples) / data * data;
  AllChanges all;
  for (const std::int64_t batch : {below, below + data}) {
    if (batch >= 1 && batch <= kMostSamples)
      all.push_back({changed(asked, &JobConfig::global_batch, batch, fmt::format("global_batch {}", batch))});
  }
  return all;
}

Finding judge_micro_batches(const JobRequest& asked) {
  const std::int64_t count = asked.config.micro_batches;
  if (count < 1) return fmt::format("{} micro-batches", count);
  if (judge_global_batch(asked) != "") return std::nullopt;
  const std::int64_t part = asked.config.global_batch / data_ranks(asked.ranks, asked.config);
  return part % count == 0 ? "" : fmt::format("{} micro-batches of the {} samples of a rank", count, part);
}

JobChanges micro_batches_changes(const JobRequest& asked) {
  const int data = judged_data_ranks(asked);
  const std::int64_t part = data > 0 && judge_global_batch(asked) == "" ? asked.config.global_batch / data : 1;
  return to_each(asked, &JobConfig::micro_batches, "micro_batches", divisors_of(part));
}

// --- memory -----------------------------------------------------------------------------------------------------

bool can_be_predicted(const JobRequest& asked) {
  for (const auto& judge :
       {judge_engine_axes, judge_engine_parts, judge_engine_context, judge_context_levels, judge_pipeline,
        judge_schedule, judge_zero, judge_replicas, judge_replicas_shard, judge_reshard, judge_prefetch,
        judge_parameter, judge_gradient, judge_codec, judge_feedback, judge_global_batch, judge_micro_batches}) {
    if (judge(asked) != "") return false;
  }
  return true;
}

Finding judge_memory(const JobRequest& asked) {
  const std::int64_t most = asked.config.memory_bytes;
  if (most < 0) return fmt::format("a limit of {} bytes", most);
  if (most == 0) return "";
  if (!can_be_predicted(asked)) return std::nullopt;
  const std::int64_t predicted = predict_memory(asked.ranks, asked.config, *asked.engine).total();
  if (predicted <= most) return "";
  return fmt::format("a rank would take {} bytes, and may take {}", predicted, most);
}

AllChanges memory_changes(const JobRequest& asked) {
  if (asked.config.memory_bytes < 0) return {{changed(asked, &JobConfig::memory_bytes, std::int64_t{0}, "memory 0")}};
  AllChanges all{zero_changes(asked)};
  JobChanges recompute;
  for (const Recompute r : {Recompute::Selective, Recompute::Full})
    recompute.push_back(changed(asked, &JobConfig::recompute, r, fmt::format("recompute {}", name_of(r))));
  all.push_back(std::move(recompute));
  all.push_back(micro_batches_changes(asked));
  if (can_be_predicted(asked)) {
    const std::int64_t needed = predict_memory(asked.ranks, asked.config, *asked.engine).total();
    all.push_back({changed(asked, &JobConfig::memory_bytes, needed, fmt::format("memory {}", needed))});
  }
  return all;
}

// --- the table --------------------------------------------------------------------------------------------------

/// Changes of each of these settings.
template <class... Of>
auto any_of(Of... of) {
  return [of...](const JobRequest& asked) { return AllChanges{of(asked)...}; };
}

template <class T>
auto set(T JobConfig::*field, T value, const char* text) {
  return [=](const JobRequest& asked) { return JobChanges{changed(asked, field, value, text)}; };
}

std::vector<JobRule> rules_of_jobs() {
  const auto one_replica = set(&JobConfig::replicas, 1, "replicas 1");
  const auto plain = set(&JobConfig::sequence_parallel, false, "not sequence-parallel");
  const auto together = set(&JobConfig::decomposed, false, "not decomposed");
  const auto reshards = set(&JobConfig::reshard, Reshard::AfterForward, "reshard after the forward pass");
  const auto unlimited = set(&JobConfig::prefetch_bytes, std::int64_t{0}, "prefetch 0");
  const auto forgets = set(&JobConfig::error_feedback, false, "no error feedback");
  const auto reproducible = set(&JobConfig::determinism, Determinism::Reproducible, "determinism reproducible");
  return {
      {"engine_axes", judge_engine_axes, engine_axes_changes},
      {"engine_parts", judge_engine_parts, any_of(tp_changes)},
      {"engine_context", judge_engine_context, any_of(cp_changes)},
      {"context_levels", judge_context_levels, any_of(context_levels_changes)},
      {"pipeline", judge_pipeline, pipeline_changes},
      {"schedule", judge_schedule, schedule_changes},
      {"sequence_parallel", judge_sequence_parallel, any_of(plain)},
      {"decomposed", judge_decomposed, any_of(together)},
      {"zero", judge_zero, any_of(zero_changes)},
      {"replicas", judge_replicas, any_of(replicas_changes)},
      {"replicas_shard", judge_replicas_shard, any_of(zero_changes, one_replica)},
      {"precision_parameter", judge_parameter, precision_changes},
      {"precision_gradient", judge_gradient, precision_changes},
      {"precision_output", judge_output, precision_changes},
      {"global_batch", judge_global_batch, global_batch_changes},
      {"micro_batches", judge_micro_batches, any_of(micro_batches_changes)},
      {"reshard", judge_reshard, any_of(reshards, zero_changes)},
      {"prefetch", judge_prefetch, any_of(unlimited, zero_changes)},
      {"codec", judge_codec, codec_changes},
      {"error_feedback", judge_feedback, any_of(forgets)},
      {"determinism", judge_determinism, any_of(reproducible)},
      {"memory", judge_memory, memory_changes},
  };
}

}  // namespace

std::vector<Violation> violations(int ranks, const JobConfig& config, const EngineFacts& engine) {
  static const RuleTable<JobRequest> table = [] {
    std::vector<JobRule> rules;
    for (const LayoutRule& rule : layout_rules().rules()) rules.push_back(of_layout(rule));
    for (JobRule& rule : rules_of_jobs()) rules.push_back(std::move(rule));
    return RuleTable(std::move(rules));
  }();
  return table.violations({ranks, config, &engine});
}

void require_no_violations(int ranks, const JobConfig& config, const EngineFacts& engine) {
  const std::vector<Violation> broken = violations(ranks, config, engine);
  if (broken.empty()) return;
  throw Error(Code::InvalidArgument, fmt::format("job of {} rank{} breaks {} rule{}:\n{}", ranks, ranks == 1 ? "" : "s",
                                                 broken.size(), broken.size() == 1 ? "" : "s", to_string(broken)));
}

}  // namespace sinew::parallel
