#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <sinew/collectives/launch/lookup.hpp>

namespace sinew {

/// The variables of one launcher that tell a process its place in the job. nullptr: this launcher has no such variable.
struct LauncherNames {
  std::string_view launcher;   ///< for messages
  const char* sign = nullptr;  ///< without which the others are not this launcher's, where launchers share names
  const char* rank = nullptr;
  const char* ranks = nullptr;
  const char* local_rank = nullptr;   ///< on this host
  const char* local_ranks = nullptr;  ///< on this host
  const char* hosts = nullptr;        ///< how many hosts have ranks
  const char* job = nullptr;          ///< a text that all ranks of one start share, and no other job of this user has
  std::string_view cure;  ///< how to start the ranks so that the launcher brings them together; may be empty
};

/// What a launcher has told this process by variables alone: there are other ranks. -1: the launcher does not say.
struct LauncherPromise {
  LauncherNames names;
  int rank = -1;
  int ranks = -1;
  int local_rank = -1;
  int local_ranks = -1;
  int hosts = -1;
  std::string job;   ///< empty: the launcher does not say
  std::string said;  ///< the variable that promises the other ranks, such as "FLUX_JOB_SIZE=3"

  bool is_on_one_host() const noexcept { return hosts == 1 || (ranks > 0 && local_ranks == ranks); }
};

/// The promise of the nearest launcher whose variables promise more than one rank. A size of 1 promises nothing,
/// because it may come from the launcher of an outer program. A local rank above 0 without a size does promise other
/// ranks.
/// Errors: InvalidArgument for a variable that holds no number, or a rank that is not below the number of ranks.
std::optional<LauncherPromise> launcher_promise(const Lookup& lookup);

}  // namespace sinew
