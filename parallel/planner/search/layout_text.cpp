#include <algorithm>
#include <cstdint>
#include <limits>
#include <set>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/base/parse_number.hpp>
#include <sinew/core/config.hpp>
#include <sinew/core/error.hpp>
#include <sinew/parallel/pipeline/generators/generators.hpp>
#include <sinew/parallel/planner/search/layout_space.hpp>
#include <sinew/parallel/planner/search/layout_text.hpp>
#include <sinew/parallel/planner/search/search.hpp>

namespace sinew::parallel {
namespace {

constexpr std::string_view kEntries[] = {
    "tp",        "pp",      "dp",        "cp",   "ep",    "zero", "micro-batch", "schedule", "virtual-stages",
    "recompute", "weights", "gradients", "near", "budget"};

[[noreturn]] void refuse(std::string_view entry, std::string_view value, const std::string& expected) {
  throw Error(Code::InvalidArgument, fmt::format("layout: {}={}: expected {}", entry, value, expected));
}

int whole(std::string_view entry, std::string_view value) {
  if (const auto number = parse_number<int>(value)) return *number;
  refuse(entry, value, fmt::format("a whole number, {} at most", std::numeric_limits<int>::max()));
}

Recompute recompute_of(std::string_view value) {
  for (const Recompute r : {Recompute::None, Recompute::Selective, Recompute::Full}) {
    if (name_of(r) == value) return r;
  }
  refuse("recompute", value, "none, selective or full");
}

WeightWire wire_of(std::string_view value) {
  for (const WeightWire w : {WeightWire::Plain, WeightWire::Int8}) {
    if (name_of(w) == value) return w;
  }
  refuse("weights", value, "plain or int8");
}

bool int4_of(std::string_view value) {
  if (value == "int4") return true;
  if (value == "plain") return false;
  refuse("gradients", value, "plain or int4");
}

std::int64_t budget_of(std::string_view value) {
  try {
    const std::uint64_t bytes = parse_bytes(value);
    if (bytes <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      return static_cast<std::int64_t>(bytes);
  } catch (const Error&) {  // not a size: said below
  }
  refuse("budget", value, "a size such as 12GiB");
}

/// Sets one entry. The samples of a microbatch go to `samples`, because they are converted when all entries are known.
void set(JobConfig& config, std::int64_t& samples, std::string_view entry, std::string_view value) {
  LayoutSizes& l = config.layout;
  if (entry == "schedule") {
    config.schedule = value;
  } else if (entry == "recompute") {
    config.recompute = recompute_of(value);
  } else if (entry == "weights") {
    config.weights = wire_of(value);
  } else if (entry == "gradients") {
    config.int4_gradients = int4_of(value);
  } else if (entry == "budget") {
    config.prefetch_bytes = budget_of(value);
  } else {
    const int number = whole(entry, value);
    if (entry == "tp") l.tp = number;
    if (entry == "pp") l.pp = number;
    if (entry == "dp") l.dp = number;
    if (entry == "cp") l.cp = number;
    if (entry == "ep") l.ep = number;
    if (entry == "zero") config.zero = number;
    if (entry == "near") config.near_ranks = number;
    if (entry == "micro-batch") samples = number;
    if (entry == "virtual-stages") config.virtual_stages = number;
  }
}

}  // namespace

std::string layout_text(const PlanQuestion& q, const JobConfig& c) {
  const LayoutSizes& l = c.layout;
  const std::string experts = l.ep > 1 ? fmt::format(" ep {}", l.ep) : "";
  std::string text = fmt::format("tp {} pp {} dp {} cp {}{}, zero {}, micro-batch {}", l.tp, l.pp,
                                 data_ranks(q.ranks(), c), l.cp, experts, c.zero, samples_of_pass(q.ranks(), c));
  if (stages(c) > 1) text += fmt::format(", {}", c.schedule);
  if (c.virtual_stages > 1) text += fmt::format(" x{}", c.virtual_stages);
  text += fmt::format(", recompute {}", name_of(c.recompute));
  if (c.weights != WeightWire::Plain) text += fmt::format(", weights {}", name_of(c.weights));
  if (c.int4_gradients) text += ", gradients int4";
  if (c.near_ranks > 1) text += fmt::format(", near {}", c.near_ranks);
  if (c.prefetch_bytes > 0)
    text += fmt::format(", budget {}", format_bytes(static_cast<std::uint64_t>(c.prefetch_bytes)));
  return text;
}

JobConfig layout_from_text(const PlanQuestion& q, const std::string& text) {
  JobConfig config = plain_config(q);
  std::int64_t samples = 1;
  std::string_view rest = text;
  std::set<std::string_view> given;
  while (!rest.empty()) {
    const std::string_view entry = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(entry.size() + 1, rest.size()));
    const std::size_t equals = entry.find('=');
    const std::string_view name = entry.substr(0, equals);
    if (equals == std::string_view::npos || std::ranges::find(kEntries, name) == std::end(kEntries))
      throw Error(Code::InvalidArgument,
                  fmt::format("layout: '{}': expected NAME=VALUE, of {}", entry, fmt::join(kEntries, ", ")));
    if (!given.insert(name).second)
      throw Error(Code::InvalidArgument, fmt::format("layout: {} is given twice, expected once", name));
    set(config, samples, name, entry.substr(equals + 1));
  }
  config.sequence_parallel = config.layout.tp > 1;
  const NamedGenerator* const generator = find_generator(config.schedule);
  if (generator != nullptr && config.layout.pp > 1 && !given.contains("virtual-stages"))
    config.virtual_stages = generator->least_virtual_stages;
  const int data = data_ranks(q.ranks(), config);
  const std::int64_t part = data > 0 ? q.global_batch / data : 0;
  if (samples < 1) refuse("micro-batch", std::to_string(samples), "1 or more");
  config.micro_batches = part > 0 ? (part + samples - 1) / samples : 1;  // if this is not exact, a rule reports it
  return config;
}

}  // namespace sinew::parallel
