#include <cstdlib>

#include <sinew/transports/ofi/environment.hpp>

namespace sinew::ofi {
namespace {

const bool kIsSet = ::setenv("FI_OFI_RXM_USE_RNDV_WRITE", "1", 0) == 0 &&
                    ::setenv("FI_OFI_RXM_EAGER_LIMIT", "131072", 0) == 0 &&
                    ::setenv("FI_AV_REMOVE_CLEANUP", "1", 0) == 0;

}  // namespace

bool environment_is_set() noexcept { return kIsSet; }

}  // namespace sinew::ofi
