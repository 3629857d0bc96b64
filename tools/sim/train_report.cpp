#include "train_report.hpp"

#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <sinew/core/base/table.hpp>
#include <sinew/parallel/planner/model/model_weights.hpp>
#include <sinew/parallel/planner/search/layout_text.hpp>
#include <sinew/tools/common/network_options.hpp>
#include <sinew/tools/common/time_text.hpp>
#include <sinew/topology/format/json/json_text.hpp>

namespace sinew::tools {
namespace {

namespace sp = parallel;
using Json = nlohmann::ordered_json;

double gib(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

std::string schedule_text(const sp::JobConfig& c) {
  if (sp::stages(c) == 1) return "-";
  return c.virtual_stages > 1 ? fmt::format("{} x{}", c.schedule, c.virtual_stages) : c.schedule;
}

std::string heading(const sp::PlanQuestion& q, std::int64_t memory_bytes) {
  std::string text = fmt::format(
      "{} ({:.4g} parameters) on {}: {} ranks, {}, {:.1f} GiB each\n"
      "steps of {} sequences of {} tokens; products of matrices at {:.0f} % of {:.4g} operations per second\n",
      q.model.name, static_cast<double>(sp::parameter_count(q.model)), q.cluster.name, q.ranks(),
      form_text(q.cluster.network), gib(memory_bytes), q.global_batch, q.sequence, 100 * q.efficiency, q.cluster.flops);
  for (const std::string& source : q.cluster.sources) text += fmt::format("  {}\n", source);
  return text;
}

/// The settings of a layout that no other column has: "int8 int4 near 8".
std::string more_text(const sp::JobConfig& c) {
  std::vector<std::string> parts;
  if (c.weights != sp::WeightWire::Plain) parts.emplace_back(name_of(c.weights));
  if (c.int4_gradients) parts.emplace_back("int4");
  if (c.near_ranks > 1) parts.push_back(fmt::format("near {}", c.near_ranks));
  if (c.prefetch_bytes > 0) parts.push_back(fmt::format("budget {:.1f} GiB", gib(c.prefetch_bytes)));
  return fmt::format("{}", fmt::join(parts, " "));
}

/// Returns whether a question has answers with such settings.
bool has_more(const sp::PlanQuestion& q) { return q.zero_plus_plus || q.stage_actions; }

/// An empty table with the columns that compare layouts.
Table layouts_table(const sp::PlanQuestion& q) {
  const auto figure = [](const char* name, const char* below = "") {
    return Column{.name = name, .below = below, .align = Align::Right};
  };
  std::vector<Column> columns{figure("tp"),
                              figure("pp"),
                              figure("dp"),
                              figure("cp"),
                              figure("ep"),
                              figure("zero"),
                              figure("micro", "batch"),
                              Column{.name = "schedule"},
                              Column{.name = "recompute"},
                              figure("memory", "(GiB)"),
                              figure("step", "(s)"),
                              figure("exposed", "(%)"),
                              figure("bubble", "(%)"),
                              figure("MFU", "(%)"),
                              figure("tokens/s")};
  if (has_more(q)) columns.push_back(Column{.name = "and"});
  return Table(std::move(columns), "  ", "  ");
}

std::vector<std::string> row(sp::Planner& planner, const sp::PlannedLayout& p) {
  const sp::PlanQuestion& q = planner.question();
  const sp::LayoutSizes& l = p.config.layout;
  const double step = p.time.total();
  const auto percent = [](double share) { return fmt::format("{:.1f}", 100 * share); };
  std::vector<std::string> cells{std::to_string(l.tp),
                                 std::to_string(l.pp),
                                 std::to_string(sp::data_ranks(q.ranks(), p.config)),
                                 std::to_string(l.cp),
                                 std::to_string(l.ep),
                                 std::to_string(p.config.zero),
                                 std::to_string(sp::samples_of_pass(q.ranks(), p.config)),
                                 schedule_text(p.config),
                                 std::string(name_of(p.config.recompute)),
                                 fmt::format("{:.1f}", gib(p.memory.total())),
                                 fmt::format("{:.3f}", step),
                                 percent(p.time.communication() / step),
                                 percent(p.time.bubble / step),
                                 percent(planner.model_flops_share(step)),
                                 fmt::format("{:.0f}", q.tokens() / step)};
  if (has_more(q)) cells.push_back(more_text(p.config));
  return cells;
}

Json memory_json(const sp::PlannedMemory& m) {
  return {{"total", m.total()},       {"parameters", m.parameters}, {"gradients", m.gradients},
          {"optimizer", m.optimizer}, {"underway", m.underway},     {"activations", m.activations},
          {"stored", m.stored}};
}

std::vector<std::pair<const char*, double>> parts_of(const sp::PlannedTime& t) {
  return {{"compute", t.passes.compute},           {"recomputation", t.passes.again},
          {"tensor exchanges", t.passes.tensor},   {"context exchanges", t.passes.context},
          {"expert exchanges", t.passes.experts},  {"bubble", t.bubble},
          {"sums of gradients", t.data.gradients}, {"gathers of parameters", t.data.parameters},
          {"tied embeddings", t.data.embeddings},  {"copies to the store", t.passes.offload},
          {"optimizer", t.data.optimizer}};
}

Json traffic_json(const sp::FarTraffic& t) {
  return {{"total", t.total()}, {"weights", t.weights}, {"gradients", t.gradients}};
}

Json layout_object(sp::Planner& planner, const sp::PlannedLayout& p) {
  const sp::PlanQuestion& q = planner.question();
  const sp::LayoutSizes& l = p.config.layout;
  const double step = p.time.total();
  Json time;
  for (const auto& [name, seconds] : parts_of(p.time)) time[name] = seconds;
  return {{"tp", l.tp},
          {"pp", l.pp},
          {"dp", sp::data_ranks(q.ranks(), p.config)},
          {"cp", l.cp},
          {"ep", l.ep},
          {"zero", p.config.zero},
          {"micro_batch", sp::samples_of_pass(q.ranks(), p.config)},
          {"micro_batches", p.config.micro_batches},
          {"schedule", sp::stages(p.config) > 1 ? p.config.schedule : ""},
          {"virtual_stages", p.config.virtual_stages},
          {"recompute", name_of(p.config.recompute)},
          {"weights", name_of(p.config.weights)},
          {"gradients", p.config.int4_gradients ? "int4" : "plain"},
          {"near_ranks", p.config.near_ranks},
          {"budget_bytes", p.config.prefetch_bytes},
          {"sharding", planner.follows(p.config) ? planner.sharding(p.config).why : ""},
          {"traffic_bytes", traffic_json(planner.traffic(p.config))},
          {"memory_bytes", memory_json(p.memory)},
          {"step_s", step},
          {"hidden_copies_s", p.time.passes.hidden},
          {"communication_s", p.time.communication()},
          {"bubble_s", p.time.bubble},
          {"mfu", planner.model_flops_share(step)},
          {"tokens_per_s", q.tokens() / step},
          {"time_s", std::move(time)}};
}

Json question_object(const sp::PlanQuestion& q, std::int64_t memory_bytes) {
  Json out;
  out["model"] = q.model.name;
  out["parameters"] = sp::parameter_count(q.model);
  out["active_parameters"] = sp::active_parameter_count(q.model);
  out["cluster"] = q.cluster.name;
  describe_form(q.cluster.network, out);
  out["ranks"] = q.ranks();
  out["global_batch"] = q.global_batch;
  out["sequence"] = q.sequence;
  out["memory_bytes"] = memory_bytes;
  out["efficiency"] = q.efficiency;
  out["sources"] = q.cluster.sources;
  return out;
}

}  // namespace

std::string plan_table(sp::Planner& planner, const sp::PlanResult& result, std::int64_t memory_bytes) {
  std::string text = heading(planner.question(), memory_bytes);
  text += fmt::format("{} layouts judged, {} break no rule and fit\n", result.judged, result.fitting);
  Table layouts = layouts_table(planner.question());
  for (const sp::PlannedLayout& p : result.best) layouts.add(row(planner, p));
  if (!result.best.empty()) text += layouts.text();
  text += "Why the others lose, by the first limit that each hits, and of each the one that comes nearest:\n";
  Table losers({{.align = Align::Right, .width = 7}, {}}, "  ");
  for (const sp::LoserClass& c : result.losers) {
    losers.add({std::to_string(c.count), fmt::format("{}: {}", c.limit, c.found)});
    losers.add({"", c.nearest + (c.fix.empty() ? "" : fmt::format("; nearest fix: {}", c.fix))});
  }
  return text + losers.text();
}

std::string plan_json(sp::Planner& planner, const sp::PlanResult& result, std::int64_t memory_bytes) {
  Json out = question_object(planner.question(), memory_bytes);
  out["judged"] = result.judged;
  out["fitting"] = result.fitting;
  auto& best = out["layouts"] = Json::array();
  for (const sp::PlannedLayout& p : result.best) best.push_back(layout_object(planner, p));
  auto& losers = out["losers"] = Json::array();
  for (const sp::LoserClass& c : result.losers)
    losers.push_back(
        {{"limit", c.limit}, {"count", c.count}, {"found", c.found}, {"nearest", c.nearest}, {"fix", c.fix}});
  return json_text(out);
}

std::string layout_table(sp::Planner& planner, const sp::PlannedLayout& p, std::int64_t memory_bytes) {
  const sp::PlanQuestion& q = planner.question();
  const double step = p.time.total();
  std::string text = heading(q, memory_bytes) + sp::layout_text(q, p.config) + "\n";
  text += fmt::format("memory {:.2f} GiB of {:.2f}{}\n", gib(p.memory.total()), gib(memory_bytes),
                      p.memory.total() <= memory_bytes ? "" : ": does not fit");
  const std::pair<const char*, std::int64_t> memory[] = {{"parameters", p.memory.parameters},
                                                         {"gradients", p.memory.gradients},
                                                         {"optimizer", p.memory.optimizer},
                                                         {"under way", p.memory.underway},
                                                         {"activations", p.memory.activations}};
  Table parts({{}, {.align = Align::Right}}, "  ");
  for (const auto& [name, bytes] : memory) parts.add({name, fmt::format("{:.2f} GiB", gib(bytes))});
  text += parts.text();
  const sp::FarTraffic sent = planner.traffic(p.config);
  text += fmt::format("data parallelism sends {:.2f} GiB to other hosts: weights {:.2f}, gradients {:.2f}\n",
                      gib(sent.total()), gib(sent.weights), gib(sent.gradients));
  if (p.memory.stored > 0) text += fmt::format("in the store of a rank {:.2f} GiB\n", gib(p.memory.stored));
  if (p.time.passes.hidden > 0)
    text += fmt::format("copies to the store and back {}, of which compute hides {}\n",
                        time_text(p.time.passes.offload + p.time.passes.hidden), time_text(p.time.passes.hidden));
  if (planner.follows(p.config)) text += fmt::format("stages: {}\n", planner.sharding(p.config).why);
  text += fmt::format("step {}, {:.1f} % of it exposed communication, {:.1f} % bubble; MFU {:.1f} %, {:.0f} tokens/s\n",
                      time_text(step), 100 * p.time.communication() / step, 100 * p.time.bubble / step,
                      100 * planner.model_flops_share(step), q.tokens() / step);
  Table times({{}, {.align = Align::Right}, {.align = Align::Right}}, "  ");
  for (const auto& [name, seconds] : parts_of(p.time)) {
    if (seconds > 0) times.add({name, time_text(seconds), fmt::format("{:.1f} %", 100 * seconds / step)});
  }
  return text + times.text();
}

std::string layout_json(sp::Planner& planner, const sp::PlannedLayout& p, std::int64_t memory_bytes) {
  Json out = question_object(planner.question(), memory_bytes);
  out["fits"] = p.memory.total() <= memory_bytes;
  out["layout"] = layout_object(planner, p);
  return json_text(out);
}

}  // namespace sinew::tools
