#pragma once

#include <string>

#include <sinew/core/base/export.hpp>
#include <sinew/core/config.hpp>

namespace sinew {

/// Equal exactly for processes that share a kernel, a network namespace and a host name: what this library calls a
/// host. "node7/boot 0d9cd93b-.../net 4026531833"; SINEW_HOST_ID replaces it. Stable until the machine restarts.
SINEW_API std::string host_identity(const Config& config);

}  // namespace sinew
