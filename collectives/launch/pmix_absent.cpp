#include <sinew/collectives/launch/pmix.hpp>
#include <sinew/core/error.hpp>

// Compiled instead of pmix.cpp where the build found no PMIx.
namespace sinew {

std::optional<Launch> launch_from_pmix(const LaunchVariables& v, int, const Config&) {
  if (v.kind != LaunchKind::Pmix) return std::nullopt;
  throw Error(
      Code::Unavailable,
      "PMIX_RANK is set, but this sinew was built without PMIx (libpmix-dev); start the ranks with sinew-run, or "
      "set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT");
}

}  // namespace sinew
