#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <sinew/core/base/exchange.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/config.hpp>
#include <sinew/core/net/socket_address.hpp>
#include <sinew/core/store/store.hpp>

namespace sinew {

/// Who started this process, as its environment tells.
enum class LaunchKind : std::uint8_t {
  Alone,          ///< nobody, or SINEW_ALONE=1: a world of one
  Variables,      ///< RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT: sinew-run, torchrun, or a person
  Pmix,           ///< Open MPI's mpirun, Slurm with pmix
  Pmi1,           ///< MPICH's Hydra, Slurm with pmi2
  Slurm,          ///< srun without either: what its own variables say
  Elastic,        ///< SINEW_ELASTIC=MIN:MAX: sinew-run with --nodes MIN:MAX or --spares
  OtherLauncher,  ///< a launcher whose protocol is off or unknown here: its variables for rank and number of ranks
};
SINEW_API std::string_view name_of(LaunchKind kind) noexcept;

/// How this process takes part in its job.
struct Launch {
  LaunchKind kind = LaunchKind::Alone;
  Exchange exchange;
  Bytes secret;                  ///< of the job, equal on all ranks
  std::string job;               ///< what the launcher calls it
  int local_rank = -1;           ///< on this host, -1 where the launcher does not say
  int local_ranks = -1;          ///< on this host, -1 alike
  std::shared_ptr<Store> store;  ///< of the job; none when alone
};

/// Finds the other ranks of this process's job: no communication but with rank 0 or the launcher. Ranks of one host
/// meet on a UNIX socket that only this user can open, those of several over TCP with a secret from PMIx, PMI or
/// SINEW_SECRET_FILE. A process may call it several times, all ranks equally often: each gives another world of the
/// same ranks. A process is alone only where no launcher's variables promise other ranks, or SINEW_ALONE=1 asks for it.
/// Errors: InvalidArgument for variables that contradict each other or are half set, saying what is set and what is
///         missing; Unavailable where several hosts have no secret, or a launcher promises other ranks without a way to
///         them; Timeout naming who did not come.
/// In an elastic job it waits until this process has a rank, and each call gives the World of another round
/// (Rendezvous).
SINEW_API Launch exchange_from_environment(const Config& config);

/// A launcher has started this process as a rank, by the variables that it sets, and SINEW_ALONE=1 is not set.
/// Errors: InvalidArgument for variables that contradict each other.
SINEW_API bool in_a_job();

/// The rank that a launcher's variables give this process. nullopt: the process is alone.
/// Errors: InvalidArgument for variables that contradict each other; Unavailable for those that say too little.
SINEW_API std::optional<int> rank_in_job();

/// Where the ranks of one host meet, and where sinew-run or its agent awaits them: an abstract UNIX socket.
SINEW_API SocketAddress bootstrap_address(std::uint16_t master_port, const std::string& job);

}  // namespace sinew
