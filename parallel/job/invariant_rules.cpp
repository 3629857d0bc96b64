#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/leaf_blocks.hpp>
#include <sinew/parallel/job/invariant_rules.hpp>
#include <sinew/parallel/mesh/layout_rules.hpp>
#include <sinew/parallel/mesh/layout_table.hpp>

namespace sinew::parallel {
namespace {

bool is_invariant(const JobRequest& asked) { return asked.config.determinism == Determinism::LayoutInvariant; }
bool is_power_of_two(std::int64_t n) { return n > 0 && std::has_single_bit(static_cast<std::uint64_t>(n)); }

JobChanges another_level(const JobRequest& asked) {
  return {changed(asked, &JobConfig::determinism, Determinism::Reproducible, "determinism reproducible")};
}

Finding judge_engine(const JobRequest& asked) {
  const std::string& why = asked.engine->invariant.why_not;
  return !is_invariant(asked) || why.empty() ? "" : fmt::format("layout_invariant: {}", why);
}

// --- axes -------------------------------------------------------------------------------------------------------

Finding judge_axes(const JobRequest& asked) {
  if (!is_invariant(asked)) return "";
  if (judge_engine(asked) != "" || !violations(asked.ranks, asked.config.layout).empty()) return std::nullopt;
  const InvariantFacts& leaves = asked.engine->invariant;
  const std::int64_t tp = asked.config.layout.tp, cp = asked.config.layout.cp, sharers = head_sharers(asked.config);
  const std::int64_t data = data_ranks(asked.ranks, asked.config);
  std::vector<std::string> wrong;
  const auto size = [&](const char* name, std::int64_t n, std::int64_t most) {
    if (!is_power_of_two(n)) wrong.push_back(fmt::format("{} {} is no power of two", name, n));
    if (n > most) wrong.push_back(fmt::format("{} {}, of at most {}", name, n, most));
  };
  size("tp", tp, leaves.most_tp);
  size("cp", cp, leaves.most_cp);
  size("dp", data, kLeafBlocks);
  if (tp <= leaves.most_tp && tp * sharers > leaves.most_tp)
    wrong.push_back(
        fmt::format("{} ranks that share the heads of each of tp {}, of at most {}", sharers, tp, leaves.most_tp / tp));
  if (cp * data > kLeafBlocks)
    wrong.push_back(fmt::format("{} ranks sum gradients, of at most {}", cp * data, kLeafBlocks));
  return wrong.empty() ? "" : fmt::format("layout_invariant: {}", fmt::join(wrong, ", "));
}

AllChanges axes_changes(const JobRequest& asked) {
  AllChanges all;
  std::vector<std::int64_t> sizes = divisors_of(std::max(asked.ranks, 1));
  std::erase_if(sizes, [](std::int64_t n) { return !is_power_of_two(n); });
  std::ranges::sort(sizes, std::greater{});
  for (const auto& [name, field] : {std::pair("tp", &LayoutSizes::tp), {"cp", &LayoutSizes::cp}}) {
    JobChanges& changes = all.emplace_back();
    for (const std::int64_t n : sizes) {
      const bool unshared = field == &LayoutSizes::cp && !asked.config.layout.cp_levels.empty();
      JobChange change{fmt::format("{} {}{}", name, n, unshared ? " that share no heads" : ""), asked};
      change.to.config.layout.*field = static_cast<int>(n);
      if (unshared) change.to.config.layout.cp_levels.clear();
      changes.push_back(std::move(change));
    }
  }
  all.push_back(another_level(asked));
  return all;
}

// --- the rest ---------------------------------------------------------------------------------------------------

Finding judge_batch(const JobRequest& asked) {
  const std::int64_t batch = asked.config.global_batch;
  return !is_invariant(asked) || is_power_of_two(batch)
             ? ""
             : fmt::format("layout_invariant, and a batch of {} samples is no power of two", batch);
}

AllChanges batch_changes(const JobRequest& asked) {
  const auto batch = static_cast<std::uint64_t>(std::max<std::int64_t>(asked.config.global_batch, 1));
  AllChanges all;
  for (const std::uint64_t n : {std::bit_floor(batch), std::bit_ceil(batch)})
    all.push_back(
        {changed(asked, &JobConfig::global_batch, static_cast<std::int64_t>(n), fmt::format("global_batch {}", n))});
  all.push_back(another_level(asked));
  return all;
}

Finding judge_rows(const JobRequest& asked) {
  return is_invariant(asked) && asked.config.decomposed
             ? "layout_invariant, and rows on their way are summed in the order of their ring"
             : "";
}

AllChanges rows_changes(const JobRequest& asked) {
  return {{changed(asked, &JobConfig::decomposed, false, "not decomposed")}, another_level(asked)};
}

Finding judge_precision(const JobRequest& asked) {
  const DType gradient = asked.config.precision.gradient;
  return is_invariant(asked) && size_of(gradient) == 2
             ? fmt::format("layout_invariant, and gradients of {} are rounded wherever they are added",
                           name_of(gradient))
             : "";
}

AllChanges invariant_precision_changes(const JobRequest& asked) {
  JobChange change{"gradients f32", asked};
  change.to.config.precision.gradient = DType::F32;
  return {{change}, another_level(asked)};
}

}  // namespace

std::vector<JobRule> invariant_rules() {
  return {
      {"determinism", judge_engine, [](const JobRequest& asked) { return AllChanges{another_level(asked)}; }},
      {"invariant_axes", judge_axes, axes_changes},
      {"invariant_batch", judge_batch, batch_changes},
      {"invariant_rows", judge_rows, rows_changes},
      {"invariant_precision", judge_precision, invariant_precision_changes},
  };
}

}  // namespace sinew::parallel
