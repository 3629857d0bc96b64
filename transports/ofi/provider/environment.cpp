#include <cstdlib>
#include <filesystem>
#include <system_error>

#include <sinew/transports/ofi/provider/environment.hpp>

namespace sinew::ofi {
namespace {

/// There ofi_rxm may run over verbs, where it makes buffers of the limit's length.
bool has_rdma() {
  std::error_code error;
  return !std::filesystem::is_empty("/sys/class/infiniband", error) && !error;
}

const bool kIsSet = (has_rdma() || ::setenv("FI_OFI_RXM_EAGER_LIMIT", "1073741824", 0) == 0) &&
                    ::setenv("FI_AV_REMOVE_CLEANUP", "1", 0) == 0;

}  // namespace

bool environment_is_set() noexcept { return kIsSet; }

}  // namespace sinew::ofi
