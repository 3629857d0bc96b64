#include <algorithm>
#include <array>

#include <fmt/format.h>

#include <sinew/collectives/launch/launchers.hpp>
#include <sinew/core/error.hpp>

namespace sinew {
namespace {

/// Launchers that may start ranks without a protocol that sinew speaks, the nearest to the program first. MPI's
/// launchers come before those of the batch systems in whose allocations they run.
constexpr std::array kLaunchers = {
    LauncherNames{.launcher = "mpirun of Open MPI",
                  .rank = "OMPI_COMM_WORLD_RANK",
                  .ranks = "OMPI_COMM_WORLD_SIZE",
                  .local_rank = "OMPI_COMM_WORLD_LOCAL_RANK",
                  .local_ranks = "OMPI_COMM_WORLD_LOCAL_SIZE",
                  .job = "OMPI_MCA_ess_base_jobid",
                  .cure = "pass mpirun's PMIX_* variables on to the program"},
    LauncherNames{.launcher = "mpirun_rsh of MVAPICH2",
                  .rank = "MV2_COMM_WORLD_RANK",
                  .ranks = "MV2_COMM_WORLD_SIZE",
                  .local_rank = "MV2_COMM_WORLD_LOCAL_RANK",
                  .local_ranks = "MV2_COMM_WORLD_LOCAL_SIZE",
                  .cure = "start the ranks with MVAPICH2's mpiexec"},
    LauncherNames{.launcher = "jsrun",
                  .rank = "JSM_NAMESPACE_RANK",
                  .ranks = "JSM_NAMESPACE_SIZE",
                  .local_rank = "JSM_NAMESPACE_LOCAL_RANK",
                  .local_ranks = "JSM_NAMESPACE_LOCAL_SIZE",
                  .cure = "pass jsrun's PMIX_* variables on to the program"},
    LauncherNames{.launcher = "mpiexec of PALS",
                  .sign = "PALS_RANKID",
                  .rank = "PALS_RANKID",
                  .ranks = "PMI_SIZE",
                  .local_rank = "PALS_LOCAL_RANKID",
                  .local_ranks = "PALS_LOCAL_SIZE",
                  .job = "PALS_APID",
                  .cure = "start the ranks with mpiexec --pmi=pmix"},
    LauncherNames{.launcher = "mpiexec of MPICH or Intel MPI",
                  .rank = "PMI_RANK",
                  .ranks = "PMI_SIZE",
                  .local_rank = "MPI_LOCALRANKID",
                  .local_ranks = "MPI_LOCALNRANKS",
                  .cure = "let the program inherit PMI_FD and the descriptor that it names"},
    LauncherNames{.launcher = "mpiexec of MPICH or Intel MPI",
                  .ranks = "MPI_LOCALNRANKS",
                  .local_rank = "MPI_LOCALRANKID",
                  .cure = "pass PMI_RANK, PMI_SIZE and PMI_FD on to the program"},
    LauncherNames{.launcher = "flux run",
                  .rank = "FLUX_TASK_RANK",
                  .ranks = "FLUX_JOB_SIZE",
                  .local_rank = "FLUX_TASK_LOCAL_ID",
                  .hosts = "FLUX_JOB_NNODES",
                  .job = "FLUX_JOB_ID",
                  .cure = "start the ranks with flux run and without its option pmi=off"},
};

/// Scripts export variables of launchers that are not there: an empty one says nothing.
std::optional<int> said_number(const Lookup& lookup, const char* name, int least) {
  if (name == nullptr || lookup(name).value_or("").empty()) return std::nullopt;
  return variable_number(lookup, name, least);
}

std::optional<LauncherPromise> promise_of(const LauncherNames& names, const Lookup& lookup) {
  if (names.sign != nullptr && !lookup(names.sign)) return std::nullopt;
  const auto rank = said_number(lookup, names.rank, 0);
  const auto ranks = said_number(lookup, names.ranks, 1);
  const auto local_rank = said_number(lookup, names.local_rank, 0);
  const bool only_local = !rank && !ranks && local_rank.value_or(0) > 0;
  // Rank 0 of an unknown number may be the only one; if it is not, the others have a higher rank and say so.
  if (!only_local && ranks.value_or(rank.value_or(0) + 1) == 1 && rank.value_or(0) == 0) return std::nullopt;
  if (rank && ranks && *rank >= *ranks) {
    throw Error(Code::InvalidArgument, fmt::format("{}={} contradicts {}={}: expected {} < {}", names.rank, *rank,
                                                   names.ranks, *ranks, names.rank, names.ranks));
  }
  LauncherPromise p{.names = names, .rank = rank.value_or(-1), .ranks = ranks.value_or(-1)};
  p.local_rank = local_rank.value_or(-1);
  p.local_ranks = said_number(lookup, names.local_ranks, 1).value_or(-1);
  p.hosts = said_number(lookup, names.hosts, 1).value_or(-1);
  if (names.job != nullptr) p.job = lookup(names.job).value_or("");
  p.said = only_local ? fmt::format("{}={}", names.local_rank, *local_rank)
           : ranks    ? fmt::format("{}={}", names.ranks, *ranks)
                      : fmt::format("{}={}", names.rank, *rank);
  return p;
}

}  // namespace

std::optional<LauncherPromise> launcher_promise(const Lookup& lookup) {
  for (const LauncherNames& names : kLaunchers) {
    if (auto promise = promise_of(names, lookup)) return promise;
  }
  return std::nullopt;
}

}  // namespace sinew
