#include <limits>
#include <numeric>

#include <fmt/format.h>

#include <sinew/collectives/launch/protocols/slurm_nodes.hpp>
#include <sinew/collectives/launch/slurm.hpp>
#include <sinew/core/base/parse_number.hpp>
#include <sinew/core/base/shown_value.hpp>
#include <sinew/core/error.hpp>

namespace sinew {
namespace {

[[noreturn]] void reject_slurm_variable(const std::string& message) { throw Error(Code::InvalidArgument, message); }

/// The number of the step this process is a task of; nullopt in a batch script and in salloc's shell, which have none
/// or one of the numbers that Slurm keeps for itself.
std::optional<std::uint32_t> step_id(const Lookup& lookup) {
  constexpr std::uint32_t kFirstReserved = 0xfffffff0;
  const std::string text = lookup("SLURM_STEP_ID").value_or("");
  const auto id = parse_number<std::uint32_t>(text);
  return id && *id < kFirstReserved && lookup("SLURM_STEP_NUM_TASKS") ? id : std::nullopt;
}

std::string required(const Lookup& lookup, const char* name) {
  auto value = lookup(name);
  if (!value)
    reject_slurm_variable(
        fmt::format("{}: not set, though SLURM_STEP_ID says that srun has started this process", name));
  return *value;
}

int required_number(const Lookup& lookup, const char* name, int least) {
  static_cast<void>(required(lookup, name));
  return *variable_number(lookup, name, least);
}

/// Node by node as many as possible equally: srun's way where nobody has said more.
std::vector<int> dealt(int tasks, int nodes) {
  std::vector<int> counts;
  for (int n = 0; n < nodes; ++n) counts.push_back(tasks / nodes + (n < tasks % nodes ? 1 : 0));
  return counts;
}

std::vector<int> tasks_of_nodes(const Lookup& lookup, const char* list_name, std::size_t nodes) {
  const auto text = lookup("SLURM_TASKS_PER_NODE");
  const auto tasks = variable_number(lookup, "SLURM_NTASKS", 1);
  if (!text) {
    if (!tasks)
      reject_slurm_variable(fmt::format("{} is set, but neither SLURM_TASKS_PER_NODE nor SLURM_NTASKS is", list_name));
    return dealt(*tasks, static_cast<int>(nodes));
  }
  std::vector<int> counts = expand_counts("SLURM_TASKS_PER_NODE", *text);
  if (counts.size() != nodes) {
    reject_slurm_variable(fmt::format("SLURM_TASKS_PER_NODE={} is for {} nodes, but {}={} names {}", *text,
                                      counts.size(), list_name, *lookup(list_name), nodes));
  }
  const std::int64_t sum = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  if (tasks && *tasks != sum) {
    reject_slurm_variable(
        fmt::format("SLURM_NTASKS={} contradicts SLURM_TASKS_PER_NODE={}, which are {}", *tasks, *text, sum));
  }
  return counts;
}

}  // namespace

std::optional<std::vector<SlurmNode>> slurm_allocation(const Lookup& lookup) {
  const bool in_step = step_id(lookup).has_value();
  if (in_step && required_number(lookup, "SLURM_STEP_NUM_TASKS", 1) > 1) return std::nullopt;
  // A shell as the only task of a step: srun has overwritten the job's counts by those of the step, or, for salloc,
  // kept them.
  const auto counts = lookup("SLURM_TASKS_PER_NODE");
  const bool of_step = in_step && counts && counts == lookup("SLURM_STEP_TASKS_PER_NODE");
  const char* list_name = of_step                        ? "SLURM_STEP_NODELIST"
                          : lookup("SLURM_JOB_NODELIST") ? "SLURM_JOB_NODELIST"
                                                         : "SLURM_NODELIST";
  const auto list = lookup(list_name);
  if (!list) return std::nullopt;
  std::vector<std::string> names = expand_nodes(list_name, *list);
  const auto nodes = variable_number(lookup, "SLURM_JOB_NUM_NODES", 1);
  // srun counts the step's here.
  const bool inside = in_step || lookup("SLURM_STEP_ID").has_value();
  if (!inside && nodes && static_cast<std::size_t>(*nodes) != names.size()) {
    reject_slurm_variable(
        fmt::format("SLURM_JOB_NUM_NODES={}, but {}={} names {} nodes", *nodes, list_name, *list, names.size()));
  }
  const std::vector<int> tasks = tasks_of_nodes(lookup, list_name, names.size());
  std::vector<SlurmNode> all;
  for (std::size_t n = 0; n < names.size(); ++n) all.push_back({std::move(names[n]), tasks[n]});
  return all;
}

std::optional<SlurmStep> slurm_step(const Lookup& lookup) {
  const auto id = step_id(lookup);
  if (!id) {
    // Only srun sets this number, and always with the step's. Whoever hands on one without the other has lost a rank.
    const auto tasks = lookup("SLURM_STEP_ID") ? std::nullopt : variable_number(lookup, "SLURM_STEP_NUM_TASKS", 1);
    if (tasks.value_or(1) > 1) {
      reject_slurm_variable(
          fmt::format("SLURM_STEP_NUM_TASKS={} says that srun has started {} tasks, but SLURM_STEP_ID is not set: "
                      "pass all SLURM_* variables on to the program; SINEW_ALONE=1 makes a world of one",
                      *tasks, *tasks));
    }
    return std::nullopt;
  }
  SlurmStep step;
  step.task = required_number(lookup, "SLURM_PROCID", 0);
  step.tasks = required_number(lookup, "SLURM_STEP_NUM_TASKS", 1);
  step.local_task = required_number(lookup, "SLURM_LOCALID", 0);
  if (step.task >= step.tasks) {
    reject_slurm_variable(
        fmt::format("SLURM_PROCID={} contradicts SLURM_STEP_NUM_TASKS={}: expected SLURM_PROCID < "
                    "SLURM_STEP_NUM_TASKS",
                    step.task, step.tasks));
  }
  const std::string list = required(lookup, "SLURM_STEP_NODELIST");
  const std::vector<std::string> nodes = expand_nodes("SLURM_STEP_NODELIST", list);
  const std::string counts_text = required(lookup, "SLURM_STEP_TASKS_PER_NODE");
  const std::vector<int> counts = expand_counts("SLURM_STEP_TASKS_PER_NODE", counts_text);
  const auto node = static_cast<std::size_t>(required_number(lookup, "SLURM_NODEID", 0));
  if (counts.size() != nodes.size() || node >= nodes.size()) {
    reject_slurm_variable(
        fmt::format("SLURM_NODEID={}, SLURM_STEP_NODELIST={} and SLURM_STEP_TASKS_PER_NODE={} contradict each other",
                    node, list, counts_text));
  }
  step.first_node = nodes.front();
  step.local_tasks = counts[node];
  if (step.local_task >= step.local_tasks || step.local_tasks > step.tasks) {
    reject_slurm_variable(
        fmt::format("SLURM_LOCALID={} contradicts SLURM_STEP_TASKS_PER_NODE={}: {} of {} tasks are on this node",
                    step.local_task, counts_text, step.local_tasks, step.tasks));
  }
  const std::string job_text = required(lookup, "SLURM_JOB_ID");
  const auto job = parse_number<std::uint32_t>(job_text);  // in a federation with its cluster's number at the top
  if (!job)
    reject_slurm_variable(fmt::format("SLURM_JOB_ID={}: expected a whole number, 0 to {}", shown_value(job_text),
                                      std::numeric_limits<std::uint32_t>::max()));
  step.name = fmt::format("slurm-{}.{}", *job, *id);
  // Above what Linux gives to connections (to 60999).
  constexpr std::uint32_t kFirstPort = 61440, kPorts = 1 << 12, kApart = 257;  // not a page
  step.port = static_cast<std::uint16_t>(kFirstPort + (*job + kApart * *id) % kPorts);
  return step;
}

}  // namespace sinew
