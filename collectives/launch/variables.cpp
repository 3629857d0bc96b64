#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/collectives/launch/slurm.hpp>
#include <sinew/collectives/launch/variables.hpp>
#include <sinew/core/error.hpp>

namespace sinew {
namespace {

[[noreturn]] void reject_variable(const std::string& message) { throw Error(Code::InvalidArgument, message); }

void require_below(const char* what, int value, const char* limit_name, int limit) {
  if (value >= limit)
    reject_variable(
        fmt::format("{}={} contradicts {}={}: expected {} < {}", what, value, limit_name, limit, what, limit_name));
}

/// All of these or none; which are set decides what the message says.
void require_together(const Lookup& lookup, const std::vector<const char*>& names) {
  std::vector<const char*> set;
  std::vector<const char*> missing;
  for (const char* n : names) (lookup(n) ? set : missing).push_back(n);
  if (!set.empty() && !missing.empty()) {
    reject_variable(fmt::format("{} set, but {} missing: a job needs all of {}", fmt::join(set, ", "),
                                fmt::join(missing, ", "), fmt::join(names, ", ")));
  }
}

void read_local(const Lookup& lookup, LaunchVariables& v, const char* rank_name, const char* ranks_name) {
  v.local_rank = variable_number(lookup, rank_name, 0).value_or(-1);
  v.local_ranks = variable_number(lookup, ranks_name, 1).value_or(-1);
  if (v.local_ranks > 0) {
    require_below(rank_name, v.local_rank, ranks_name, v.local_ranks);
    if (v.local_ranks > v.ranks) {
      reject_variable(fmt::format("{}={} exceeds the {} ranks of the job", ranks_name, v.local_ranks, v.ranks));
    }
  }
  if (v.local_rank > v.rank)
    reject_variable(fmt::format("{}={} exceeds this process's rank {}", rank_name, v.local_rank, v.rank));
}

LaunchVariables read_master(const Lookup& lookup) {
  require_together(lookup, {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"});
  LaunchVariables v;
  v.kind = LaunchKind::Variables;
  v.rank = *variable_number(lookup, "RANK", 0);
  v.ranks = *variable_number(lookup, "WORLD_SIZE", 1);
  require_below("RANK", v.rank, "WORLD_SIZE", v.ranks);
  v.master_host = *lookup("MASTER_ADDR");
  if (v.master_host.empty()) reject_variable("MASTER_ADDR is set but empty: expected a host name or address");
  v.master_port = static_cast<std::uint16_t>(*variable_number(lookup, "MASTER_PORT", 1, 65535));
  v.port_taken = lookup("TORCHELASTIC_USE_AGENT_STORE") == "True";
  if (v.port_taken && v.master_port == 65535) {
    reject_variable(
        "MASTER_PORT=65535: torchrun's agent holds it, and ranks meet on the next port: expected 65534 at most");
  }
  read_local(lookup, v, "LOCAL_RANK", "LOCAL_WORLD_SIZE");
  return v;
}

/// Beneath srun without a start-up protocol. Who sets MASTER_ADDR or MASTER_PORT knows better where task 0 listens.
LaunchVariables read_slurm(const Lookup& lookup, const SlurmStep& step) {
  LaunchVariables v;
  v.kind = LaunchKind::Slurm;
  v.rank = step.task;
  v.ranks = step.tasks;
  v.local_rank = step.local_task;
  v.local_ranks = step.local_tasks;
  v.job = step.name;
  v.master_host = lookup("MASTER_ADDR").value_or(step.first_node);
  if (v.master_host.empty()) reject_variable("MASTER_ADDR is set but empty: expected a host name or address");
  v.master_port = static_cast<std::uint16_t>(variable_number(lookup, "MASTER_PORT", 1, 65535).value_or(step.port));
  return v;
}

LaunchVariables read_pmi1(const Lookup& lookup) {
  require_together(lookup, {"PMI_RANK", "PMI_SIZE", "PMI_FD"});
  LaunchVariables v;
  v.kind = LaunchKind::Pmi1;
  v.rank = *variable_number(lookup, "PMI_RANK", 0);
  v.ranks = *variable_number(lookup, "PMI_SIZE", 1);
  require_below("PMI_RANK", v.rank, "PMI_SIZE", v.ranks);
  v.pmi_descriptor = *variable_number(lookup, "PMI_FD", 0);
  read_local(lookup, v, "MPI_LOCALRANKID", "MPI_LOCALNRANKS");
  return v;
}

}  // namespace

LaunchVariables read_launch_variables(const Lookup& lookup) {
  const bool pmix = lookup("PMIX_RANK").has_value() || lookup("PMIX_NAMESPACE").has_value();
  const bool pmi1 = lookup("PMI_FD").has_value();
  const bool ranked = lookup("RANK").has_value() || lookup("WORLD_SIZE").has_value();
  // Scripts export MASTER_ADDR and MASTER_PORT for others beneath mpirun and srun: alone they say nothing about us.
  const bool master = lookup("MASTER_ADDR").has_value() || lookup("MASTER_PORT").has_value();
  const bool pmi = pmix || pmi1 || lookup("PMI_RANK").has_value() || lookup("PMI_SIZE").has_value();
  const auto step = ranked || pmi ? std::nullopt : slurm_step(lookup);
  LaunchVariables v;
  if (step) {
    v = read_slurm(lookup, *step);
  } else if (ranked || (master && !pmix && !pmi1)) {
    v = read_master(lookup);
  } else if (pmix) {
    require_together(lookup, {"PMIX_RANK", "PMIX_NAMESPACE"});
    v.kind = LaunchKind::Pmix;
    v.rank = *variable_number(lookup, "PMIX_RANK", 0);
    v.ranks = 0;  // the server knows
  } else if (pmi) {
    v = read_pmi1(lookup);
  }
  v.job = lookup("SINEW_JOB").value_or(v.job);
  return v;
}

}  // namespace sinew
