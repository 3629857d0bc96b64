#include <fmt/format.h>

#include <sinew/collectives/launch/launch.hpp>
#include <sinew/collectives/launch/master.hpp>
#include <sinew/collectives/launch/pmi1.hpp>
#include <sinew/collectives/launch/pmix.hpp>
#include <sinew/collectives/launch/variables.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/net/secret.hpp>
#include <sinew/core/net/tls_context.hpp>

namespace sinew {

std::string_view name_of(LaunchKind kind) noexcept {
  switch (kind) {
    case LaunchKind::Alone: return "alone";
    case LaunchKind::Variables: return "RANK and MASTER_ADDR";
    case LaunchKind::Pmix: return "PMIx";
    case LaunchKind::Pmi1: return "PMI-1";
    case LaunchKind::Slurm: return "srun";
    case LaunchKind::OtherLauncher: return "another launcher's variables";
  }
  return "?";
}

bool in_a_job() { return launcher_kind(process_environment()) != LaunchKind::Alone; }

Launch exchange_from_environment(const Config& config) {
  const LaunchVariables v = read_launch_variables(process_environment());
  // What is wrong with a file is told before anybody waits for this rank.
  if (!config.secret_file.empty()) static_cast<void>(secret_from_file(config.secret_file));
  static_cast<void>(TlsContext::open(config.tls));
  if (v.ranks == 1) return {v.kind, exchange_alone(), random_secret(), v.job, 0, 1, nullptr};
  try {
    if (v.kind == LaunchKind::Pmix) return launch_from_pmix(config);
    return v.kind == LaunchKind::Pmi1 ? launch_from_pmi1(v, config) : launch_from_master(v, config);
  } catch (const Error& e) {
    const bool lost_server = v.kind == LaunchKind::Pmi1 && e.code() == Code::System;
    const bool may_be_alone = e.code() == Code::Unavailable || e.code() == Code::Timeout || lost_server;
    if (v.kind == LaunchKind::Variables || !may_be_alone) throw;
    const std::string promise = v.promise.empty() ? "" : fmt::format(" ({})", v.promise);
    throw Error(e.code(), fmt::format("{}{}; SINEW_ALONE=1 makes a world of one", e.what(), promise), e.rank());
  }
}

}  // namespace sinew
