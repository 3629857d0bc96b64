#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/call/determinism.hpp>
#include <sinew/core/config.hpp>
#include <sinew/core/error.hpp>
#include <sinew/parallel/data_parallel/plan/gradient_wire.hpp>
#include <sinew/parallel/job/engine_rules.hpp>
#include <sinew/parallel/job/invariant_rules.hpp>
#include <sinew/parallel/job/job_changes.hpp>
#include <sinew/parallel/job/job_rules.hpp>
#include <sinew/parallel/job/predicted_memory.hpp>
#include <sinew/parallel/job/stage_sharding.hpp>
#include <sinew/parallel/job/wire_rules.hpp>
#include <sinew/parallel/mesh/layout_rules.hpp>
#include <sinew/parallel/mesh/layout_table.hpp>

namespace sinew::parallel {
namespace {

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

// --- what is sharded --------------------------------------------------------------------------------------------

Finding judge_zero(const JobRequest& asked) {
  const int zero = asked.config.zero;
  return zero < 0 || zero > 3 ? fmt::format("zero {}, of 0 to 3", zero) : "";
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
  if (asked.config.reshard == Reshard::AfterForward) return "";
  if (stages(asked.config) > 1) return "parameters stay until the backward pass, as a pipeline's always do";
  if (asked.config.zero == 3) return "";
  return fmt::format("parameters stay until the backward pass, and zero {} does not gather any", asked.config.zero);
}

Finding judge_prefetch(const JobRequest& asked) {
  const std::int64_t bytes = asked.config.prefetch_bytes;
  if (bytes < 0) return fmt::format("{} bytes", bytes);
  if (bytes == 0) return "";
  if (stages(asked.config) > 1 && !follows_schedule(asked.config, *asked.engine))
    return fmt::format("a limit of {} bytes, and all stages of a pipeline's rank are gathered at once", bytes);
  if (asked.config.zero >= 2) return "";
  return fmt::format("a limit of {} bytes, and with zero {} nothing is gathered or scattered ahead", bytes,
                     asked.config.zero);
}

/// Judged if the bytes of all stages can be known.
Finding judge_stage_actions(const JobRequest& asked) {
  const JobConfig& c = asked.config;
  if (!follows_schedule(c, *asked.engine)) return "";
  if (!fits_engine(asked) || judge_zero(asked) != "" || judge_replicas(asked) != "" ||
      judge_replicas_shard(asked) != "" || judge_reshard(asked) != "" || judge_prefetch(asked) != "")
    return std::nullopt;
  try {
    const PipelineSchedule schedule = sharded_schedule(asked.ranks, c, *asked.engine).schedule;
    for (const RankPlace& place : unlike_places(asked.ranks, c, *asked.engine)) {
      DataStrategy dense = data_strategy(asked.ranks, c, *asked.engine);
      const std::vector<DataParameter> parameters = asked.engine->parameters(c, place);
      follow(dense, schedule, c, *asked.engine, place, parameters);
      const std::vector<std::string> wrong = violations_of(dense.options.step.order, parameters, dense.row);
      if (!wrong.empty()) return wrong.front();
    }
  } catch (const Error& e) {
    return e.what();
  }
  return "";
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

AllChanges plain_precision_changes(const JobRequest& asked) {
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

/// "22.02 MiB".
std::string size_text(std::int64_t bytes) {
  constexpr std::int64_t kMiB = 1 << 20;
  return bytes < kMiB ? fmt::format("{} bytes", bytes)
                      : fmt::format("{:.2f} MiB", static_cast<double>(bytes) / static_cast<double>(kMiB));
}

/// To whole KiB, MiB or GiB of which there are 16 at least.
std::int64_t rounded_up(std::int64_t bytes) {
  for (const std::int64_t unit : {1 << 30, 1 << 20, 1 << 10}) {
    if (bytes >= 16 * unit) return (bytes + unit - 1) / unit * unit;
  }
  return bytes;
}

bool can_be_predicted(const JobRequest& asked) {
  if (!fits_engine(asked) || breaks_wire_rules(asked)) return false;
  for (const auto& judge :
       {judge_zero, judge_replicas, judge_replicas_shard, judge_reshard, judge_prefetch, judge_stage_actions,
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
  return fmt::format("a rank would take {}, and may take {}", size_text(predicted), size_text(most));
}

/// Combines two or three changes that save memory, if one alone is not enough.
JobChanges savings_together(const JobRequest& asked) {
  const JobChanges cuts = micro_batches_changes(asked);
  const auto most =
      std::ranges::max_element(cuts, {}, [](const JobChange& change) { return change.to.config.micro_batches; });
  JobChanges all;
  for (const int which : {3, 5, 6, 7}) {
    JobChange change{"", asked};
    std::vector<std::string> texts;
    if ((which & 1) != 0) {
      change.to.config.zero = 3;
      texts.emplace_back("zero 3");
    }
    if ((which & 2) != 0) {
      change.to.config.recompute = Recompute::Full;
      texts.emplace_back("recompute full");
    }
    if ((which & 4) != 0 && most != cuts.end()) {
      change.to.config.micro_batches = most->to.config.micro_batches;
      texts.push_back(most->text);
    }
    change.text = fmt::format("{}", fmt::join(texts, " with "));
    all.push_back(std::move(change));
  }
  return all;
}

AllChanges memory_changes(const JobRequest& asked) {
  if (asked.config.memory_bytes < 0) return {{changed(asked, &JobConfig::memory_bytes, std::int64_t{0}, "memory 0")}};
  AllChanges all{zero_changes(asked)};
  JobChanges recompute;
  for (const Recompute r : {Recompute::Selective, Recompute::Full})
    recompute.push_back(changed(asked, &JobConfig::recompute, r, fmt::format("recompute {}", name_of(r))));
  all.push_back(std::move(recompute));
  all.push_back(micro_batches_changes(asked));
  const bool one_will_do = std::ranges::any_of(all, [](const JobChanges& of_one) {
    return std::ranges::any_of(of_one, [](const JobChange& change) { return judge_memory(change.to) == ""; });
  });
  if (!one_will_do) all.push_back(savings_together(asked));
  if (can_be_predicted(asked)) {
    const std::int64_t enough = rounded_up(predict_memory(asked.ranks, asked.config, *asked.engine).total());
    all.push_back({changed(asked, &JobConfig::memory_bytes, enough,
                           fmt::format("memory {}", format_bytes(static_cast<std::uint64_t>(enough))))});
  }
  return all;
}

// --- the table --------------------------------------------------------------------------------------------------

std::vector<JobRule> rules_of_jobs() {
  const auto one_replica = set_to(&JobConfig::replicas, 1, "replicas 1");
  const auto reshards = set_to(&JobConfig::reshard, Reshard::AfterForward, "reshard after the forward pass");
  const auto unlimited = set_to(&JobConfig::prefetch_bytes, std::int64_t{0}, "prefetch 0");
  const auto one_forward = set_to(&JobConfig::schedule, std::string("1f1b"), "schedule 1f1b");
  const auto forgets = set_to(&JobConfig::error_feedback, false, "no error feedback");
  std::vector<JobRule> rules = {
      {"zero", judge_zero, any_of(zero_changes)},
      {"replicas", judge_replicas, any_of(replicas_changes)},
      {"replicas_shard", judge_replicas_shard, any_of(zero_changes, one_replica)},
      {"precision_parameter", judge_parameter, plain_precision_changes},
      {"precision_gradient", judge_gradient, plain_precision_changes},
      {"precision_output", judge_output, plain_precision_changes},
      {"global_batch", judge_global_batch, global_batch_changes},
      {"micro_batches", judge_micro_batches, any_of(micro_batches_changes)},
      {"reshard", judge_reshard, any_of(reshards, zero_changes)},
      {"prefetch", judge_prefetch, any_of(unlimited, zero_changes)},
      {"stage_actions", judge_stage_actions, any_of(unlimited, zero_changes, one_forward)},
      {"codec", judge_codec, codec_changes},
      {"error_feedback", judge_feedback, any_of(forgets)},
  };
  for (JobRule& rule : wire_rules()) rules.push_back(std::move(rule));
  for (JobRule& rule : invariant_rules()) rules.push_back(std::move(rule));
  rules.push_back({"memory", judge_memory, memory_changes});
  return rules;
}

}  // namespace

std::vector<Violation> violations(int ranks, const JobConfig& config, const EngineFacts& engine) {
  static const RuleTable<JobRequest> table = [] {
    std::vector<JobRule> rules;
    for (const LayoutRule& rule : layout_rules().rules()) rules.push_back(of_layout(rule));
    for (JobRule& rule : engine_rules()) rules.push_back(std::move(rule));
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
