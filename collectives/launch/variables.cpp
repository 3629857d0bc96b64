#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/collectives/launch/launchers.hpp>
#include <sinew/collectives/launch/slurm.hpp>
#include <sinew/collectives/launch/variables.hpp>
#include <sinew/core/base/made_once.hpp>
#include <sinew/core/base/parse_number.hpp>
#include <sinew/core/base/shown_value.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/net/socket_address.hpp>

namespace sinew {
namespace {

[[noreturn]] void reject_variable(const std::string& message) { throw Error(Code::InvalidArgument, message); }

void require_below(const char* what, int value, const char* limit_name, int limit) {
  if (value < limit) return;
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
    if (v.ranks > 0 && v.local_ranks > v.ranks) {
      reject_variable(fmt::format("{}={} exceeds the {} ranks of the job: expected the number of ranks on this host",
                                  ranks_name, v.local_ranks, v.ranks));
    }
  }
  if (v.ranks > 0 && v.local_rank >= v.ranks) {
    reject_variable(fmt::format("{}={} contradicts {}: expected a number below {}, the rank's number on its host",
                                rank_name, v.local_rank, v.promise, v.ranks));
  }
}

bool is_ipv6(std::string_view text) {
  try {
    return SocketAddress::parse(fmt::format("[{}]:1", text)).family() == AF_INET6;
  } catch (const Error&) {
    return false;
  }
}

/// Takes an IPv6 address with brackets, as in a URL, or without.
void read_master_host(LaunchVariables& v, const std::string& text) {
  v.master_said = "MASTER_ADDR=" + text;
  const bool bracketed = text.starts_with('[') && text.ends_with(']');
  v.master_host = bracketed ? text.substr(1, text.size() - 2) : text;
  const bool may_be_name = !bracketed && !text.empty() && text.find_first_of(" \t/[]:") == std::string::npos;
  if (!may_be_name && !is_ipv6(v.master_host)) {
    reject_variable(
        fmt::format("{}: expected a host name or an address without a port, such as node0, 10.0.0.1, "
                    "fd00::1 or [fd00::1]",
                    shown_value(v.master_said)));
  }
}

std::uint16_t read_port(const Lookup& lookup, std::uint16_t otherwise) {
  return static_cast<std::uint16_t>(variable_number(lookup, "MASTER_PORT", 1, 65535).value_or(otherwise));
}

std::string spread_of(const SlurmStep& step) {
  return fmt::format("srun has started {} of SLURM_STEP_NUM_TASKS={} here", step.local_tasks, step.tasks);
}

std::string spread_of(const LauncherPromise& p) {
  if (p.local_ranks > 0) return fmt::format("{}={} of {}", p.names.local_ranks, p.local_ranks, p.said);
  return p.hosts > 0 ? fmt::format("{}={}", p.names.hosts, p.hosts) : "";
}

constexpr std::string_view kSrunCure = "start them with srun --mpi=pmix or srun --mpi=pmi2";

/// Reads other variables, or nothing where they contradict each other: RANK and its companions count.
template <class Read>
auto if_it_can_be_read(Read read) -> decltype(read()) {
  try {
    return read();
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// The launcher in whose job somebody has set RANK and its companions knows where its ranks are, and its protocol may
/// carry the secret. That holds if it has started WORLD_SIZE ranks itself: not those of torchrun, which are none of the
/// launcher's.
void ask_launcher_beneath(const Lookup& lookup, LaunchVariables& v) {
  if (lookup("TORCHELASTIC_RUN_ID")) return;
  const auto step = if_it_can_be_read([&] { return slurm_step(lookup); });
  const auto promise = if_it_can_be_read([&] { return launcher_promise(lookup); });
  const auto pmi_ranks = if_it_can_be_read([&] { return variable_number(lookup, "PMI_SIZE", 1); });
  const int ranks = promise && promise->ranks > 0 ? promise->ranks : step ? step->tasks : pmi_ranks.value_or(v.ranks);
  if (ranks != v.ranks) return;
  if (lookup("PMIX_RANK") && lookup("PMIX_NAMESPACE")) {
    v.protocol = LaunchKind::Pmix;
  } else if (const auto line = if_it_can_be_read([&] { return variable_number(lookup, "PMI_FD", 0); });
             line && pmi_ranks) {
    v.protocol = LaunchKind::Pmi1;
    v.pmi_descriptor = *line;
  }
  if (v.local_ranks > 0) return;
  if (promise) {
    v.spread = spread_of(*promise);
    v.hosts = promise->is_on_one_host() ? 1 : promise->hosts;
    v.cure = promise->names.cure;
  } else if (step) {
    v.spread = spread_of(*step);
    v.hosts = step->local_tasks == step->tasks ? 1 : -1;
    v.cure = kSrunCure;
  }
  v.several_hosts = !v.spread.empty() && v.hosts != 1;
}

LaunchVariables read_master(const Lookup& lookup) {
  LaunchVariables v;
  v.rank = *variable_number(lookup, "RANK", 0);
  v.ranks = *variable_number(lookup, "WORLD_SIZE", 1);
  require_below("RANK", v.rank, "WORLD_SIZE", v.ranks);
  v.promise = fmt::format("WORLD_SIZE={}", v.ranks);
  read_master_host(v, *lookup("MASTER_ADDR"));
  v.master_port = read_port(lookup, 0);
  v.port_taken = lookup("TORCHELASTIC_USE_AGENT_STORE") == "True";
  if (v.port_taken && v.master_port == 65535) {
    reject_variable(
        "MASTER_PORT=65535: torchrun's agent holds it, and ranks meet on the next port: expected 65534 at most");
  }
  read_local(lookup, v, "LOCAL_RANK", "LOCAL_WORLD_SIZE");
  if (v.local_ranks > 0) v.spread = fmt::format("LOCAL_WORLD_SIZE={} of {}", v.local_ranks, v.promise);
  ask_launcher_beneath(lookup, v);
  return v;
}

LaunchVariables read_elastic(const Lookup& lookup) {
  LaunchVariables v;
  v.ranks = 0;  // the rendezvous knows
  const std::string said = *lookup("SINEW_ELASTIC");
  const auto limits = parse_number_pair<int>(said);
  if (!limits || limits->first < 1 || limits->second < limits->first) {
    reject_variable(
        fmt::format("SINEW_ELASTIC={}: expected MIN:MAX in ranks, 1 to {} and MIN not above MAX, such as 2:8",
                    shown_value(said), std::numeric_limits<int>::max()));
  }
  std::tie(v.least_ranks, v.most_ranks) = *limits;
  v.master_port = read_port(lookup, 0);
  return v;
}

LaunchVariables read_pmix(const Lookup& lookup) {
  LaunchVariables v;
  v.rank = *variable_number(lookup, "PMIX_RANK", 0);
  v.ranks = 0;  // the server knows
  return v;
}

LaunchVariables read_pmi_descriptor(const Lookup& lookup) {
  LaunchVariables v;
  v.rank = *variable_number(lookup, "PMI_RANK", 0);
  v.ranks = *variable_number(lookup, "PMI_SIZE", 1);
  require_below("PMI_RANK", v.rank, "PMI_SIZE", v.ranks);
  v.promise = fmt::format("PMI_SIZE={}", v.ranks);
  v.pmi_descriptor = *variable_number(lookup, "PMI_FD", 0);
  read_local(lookup, v, "MPI_LOCALRANKID", "MPI_LOCALNRANKS");
  return v;
}

LaunchVariables read_pmi_port(const Lookup& lookup) {
  LaunchVariables v;
  v.ranks = 0;  // the server knows
  v.pmi_port = *lookup("PMI_PORT");
  v.pmi_id = *variable_number(lookup, "PMI_ID", 0);
  v.rank = v.pmi_id;
  read_local(lookup, v, "MPI_LOCALRANKID", "MPI_LOCALNRANKS");
  return v;
}

/// A launcher through which ranks meet, and the variables that show it.
struct LauncherSigns {
  LaunchKind kind;
  std::vector<const char*> any;  ///< one of these shows that this launcher has started the process
  std::vector<const char*> all;  ///< what such a launcher sets
  LaunchVariables (*read)(const Lookup&);
};

/// The nearest first.
std::vector<LauncherSigns> make_launcher_signs() {
  return {
      {LaunchKind::Elastic, {"SINEW_ELASTIC"}, {"SINEW_ELASTIC", "SINEW_JOB", "MASTER_PORT"}, &read_elastic},
      {LaunchKind::Variables,
       {"RANK", "WORLD_SIZE"},
       {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"},
       &read_master},
      {LaunchKind::Pmix, {"PMIX_RANK", "PMIX_NAMESPACE"}, {"PMIX_RANK", "PMIX_NAMESPACE"}, &read_pmix},
      {LaunchKind::Pmi1, {"PMI_FD"}, {"PMI_RANK", "PMI_SIZE", "PMI_FD"}, &read_pmi_descriptor},
      {LaunchKind::Pmi1, {"PMI_PORT"}, {"PMI_PORT", "PMI_ID"}, &read_pmi_port},
  };
}

const std::vector<LauncherSigns>& launcher_signs() {
  static constinit MadeOnce<std::vector<LauncherSigns>> signs;
  return signs.get(make_launcher_signs);
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
  v.promise = fmt::format("SLURM_STEP_NUM_TASKS={}", v.ranks);
  v.spread = spread_of(step);
  v.several_hosts = step.local_tasks != step.tasks;
  v.cure = kSrunCure;
  if (const auto address = lookup("MASTER_ADDR")) {
    read_master_host(v, *address);
  } else {
    v.master_host = step.first_node;
    v.master_said = "the first node of SLURM_STEP_NODELIST";
  }
  v.master_port = read_port(lookup, step.port);
  return v;
}

/// Says all that a person needs to know who has started ranks that cannot find each other.
[[noreturn]] void refuse_promise(const LauncherPromise& p, const std::string& why) {
  const std::string place = p.rank < 0 && p.ranks < 0 ? fmt::format("rank {} of its host", p.local_rank)
                            : p.rank < 0              ? fmt::format("one of {} ranks", p.ranks)
                            : p.ranks < 0             ? fmt::format("rank {}", p.rank)
                                                      : fmt::format("rank {} of {}", p.rank, p.ranks);
  const std::string cure = p.names.cure.empty() ? "" : fmt::format("{}, or ", p.names.cure);
  throw Error(
      Code::Unavailable,
      fmt::format("{}: {} has started this process as {}, but {}; {}start the ranks with sinew-run, or set "
                  "{}MASTER_ADDR and MASTER_PORT, alike for all ranks, to where rank 0 shall listen; "
                  "SINEW_ALONE=1 makes a world of one",
                  p.said, p.names.launcher, place, why, cure, p.rank < 0 || p.ranks < 0 ? "RANK, WORLD_SIZE, " : ""));
}

LaunchVariables read_promise(const Lookup& lookup, const LauncherPromise& p) {
  if (p.rank < 0) refuse_promise(p, "does not say which rank it is");
  if (p.ranks < 0) refuse_promise(p, "does not say how many ranks there are");
  LaunchVariables v;
  v.kind = LaunchKind::OtherLauncher;
  v.rank = p.rank;
  v.ranks = p.ranks;
  v.local_rank = p.local_rank;
  v.local_ranks = p.local_ranks;
  v.hosts = p.hosts;
  v.job = p.job;
  v.promise = p.said;
  v.cure = p.names.cure;
  v.spread = spread_of(p);
  v.several_hosts = !v.spread.empty() && !p.is_on_one_host();
  const auto address = lookup("MASTER_ADDR");
  if (address && lookup("MASTER_PORT")) {
    read_master_host(v, *address);
    v.master_port = read_port(lookup, 0);
  } else if (!p.is_on_one_host()) {
    refuse_promise(p, "does not say where rank 0 is");
  } else if (p.job.empty()) {
    refuse_promise(p, "gives the job no name that its ranks could find each other by");
  }
  return v;
}

/// The launcher that has started this process, with what deciding it has found out.
struct FoundLauncher {
  LaunchKind kind = LaunchKind::Alone;
  const LauncherSigns* signs = nullptr;    ///< of Variables, Pmix and Pmi1
  std::optional<SlurmStep> step;           ///< of Slurm
  std::optional<LauncherPromise> promise;  ///< of OtherLauncher
};

bool asks_to_be_alone(const Lookup& lookup) { return lookup("SINEW_ALONE") == "1"; }

FoundLauncher find_launcher(const Lookup& lookup) {
  if (asks_to_be_alone(lookup)) return {};
  const auto is_set = [&](const char* name) { return lookup(name).has_value(); };
  for (const LauncherSigns& s : launcher_signs()) {
    if (std::ranges::any_of(s.any, is_set)) return {s.kind, &s, {}, {}};
  }
  auto promise = launcher_promise(lookup);
  auto step = slurm_step(lookup);
  // srun may start the ranks of another launcher, and then both say the same; or that launcher's daemons, whose numbers
  // are not those of the ranks.
  const bool same = promise && step && (promise->rank < 0 || promise->rank == step->task) &&
                    (promise->ranks < 0 || promise->ranks == step->tasks);
  if (promise && !same) return {LaunchKind::OtherLauncher, nullptr, {}, std::move(promise)};
  if (step) return {LaunchKind::Slurm, nullptr, std::move(step), {}};
  return {};
}

}  // namespace

LaunchKind launcher_kind(const Lookup& lookup) { return find_launcher(lookup).kind; }

LaunchVariables read_launch_variables(const Lookup& lookup) {
  const FoundLauncher found = find_launcher(lookup);
  LaunchVariables v;
  if (found.signs != nullptr) {
    require_together(lookup, found.signs->all);
    v = found.signs->read(lookup);
    v.kind = found.kind;
  } else if (found.step) {
    v = read_slurm(lookup, *found.step);
  } else if (found.promise) {
    v = read_promise(lookup, *found.promise);
  } else if (!asks_to_be_alone(lookup)) {
    require_together(lookup, {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"});
  }
  v.job = lookup("SINEW_JOB").value_or(v.job);
  return v;
}

}  // namespace sinew
