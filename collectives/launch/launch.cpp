#include <string>
#include <string_view>

#include <fmt/format.h>

#include <sinew/collectives/launch/bootstrap.hpp>
#include <sinew/collectives/launch/launch.hpp>
#include <sinew/collectives/launch/master.hpp>
#include <sinew/collectives/launch/pmi1.hpp>
#include <sinew/collectives/launch/pmix.hpp>
#include <sinew/collectives/launch/rendezvous.hpp>
#include <sinew/collectives/launch/variables.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/net/secret.hpp>
#include <sinew/core/net/tls_context.hpp>
#include <sinew/core/system/host_name.hpp>

namespace sinew {

std::string_view name_of(LaunchKind kind) noexcept {
  switch (kind) {
    case LaunchKind::Alone: return "alone";
    case LaunchKind::Variables: return "RANK and MASTER_ADDR";
    case LaunchKind::Pmix: return "PMIx";
    case LaunchKind::Pmi1: return "PMI-1";
    case LaunchKind::Slurm: return "srun";
    case LaunchKind::Elastic: return "sinew-run, elastic";
    case LaunchKind::OtherLauncher: return "another launcher's variables";
  }
  return "?";
}

bool in_a_job() { return launcher_kind(process_environment()) != LaunchKind::Alone; }

std::optional<int> rank_in_job() {
  const LaunchVariables v = read_launch_variables(process_environment());
  return v.ranks == 1 ? std::nullopt : std::optional(v.rank);
}

namespace {

/// The variables that remain where an earlier program has ended PMI's protocol: srun's own, or another launcher's.
LaunchVariables read_beside_pmi(const Lookup& lookup, int descriptor) {
  const std::string over = fmt::format(
      "PMI_FD={}: the launcher has closed this line, because an earlier program of this task has ended the protocol; "
      "start each program with a command of the launcher's of its own",
      descriptor);
  const Lookup without_pmi = [&lookup](const char* name) {
    return std::string_view(name) == "PMI_FD" ? std::nullopt : lookup(name);
  };
  try {
    LaunchVariables v = read_launch_variables(without_pmi);
    v.cure = over;
    if (v.kind != LaunchKind::Alone) return v;
  } catch (const Error& e) {
    if (e.code() != Code::Unavailable) throw;
  }
  throw Error(Code::Unavailable,
              fmt::format("{}, or set MASTER_ADDR and MASTER_PORT, alike for all ranks, to where rank 0 shall listen; "
                          "SINEW_ALONE=1 makes a world of one",
                          over));
}

Launch find_other_ranks(const Config& config) {
  LaunchVariables v = read_launch_variables(process_environment());
  // What is wrong with a file is told before anybody waits for this rank.
  if (!config.secret_file.empty()) static_cast<void>(secret_from_file(config.secret_file));
  static_cast<void>(TlsContext::open(config.tls));
  if (v.kind == LaunchKind::Elastic) return launch_from_rendezvous(v, config);
  if (v.ranks == 1) return {v.kind, exchange_alone(), random_secret(), v.job, 0, 1, nullptr};
  if (pmi1_is_over(v)) v = read_beside_pmi(process_environment(), v.pmi_descriptor);
  const int world = next_world();
  try {
    switch (v.kind) {
      case LaunchKind::Pmix: return launch_from_pmix(v, world, config).value();
      case LaunchKind::Pmi1: return launch_from_pmi1(v, world, config).value();
      default: return launch_from_master(v, world, config);
    }
  } catch (const Error& e) {
    const bool lost_server = v.kind == LaunchKind::Pmi1 && e.code() == Code::System;
    const bool may_be_alone = e.code() == Code::Unavailable || e.code() == Code::Timeout || lost_server;
    if (v.kind == LaunchKind::Variables || !may_be_alone) throw;
    const std::string promise = v.promise.empty() ? "" : fmt::format(" ({})", v.promise);
    throw Error(e.code(), fmt::format("{}{}; SINEW_ALONE=1 makes a world of one", e.what(), promise), e.rank());
  }
}

}  // namespace

Launch exchange_from_environment(const Config& config) {
  try {
    return find_other_ranks(config);
  } catch (const Error& e) {
    throw Error(e.code(), fmt::format("{} (this host: {})", e.what(), host_name()), e.rank());
  }
}

}  // namespace sinew
