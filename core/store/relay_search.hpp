#pragma once

#include <utility>

#include <sinew/core/base/export.hpp>
#include <sinew/core/store/store_client.hpp>

namespace sinew {

/// Connects a relay to its parent. It asks the server of the store at `root.addresses`, and goes to the relay that the
/// server names, if it names one. If that relay cannot be reached, it asks again. Each connection is authenticated.
/// Returns the connection and the parent.
/// Errors: those of StoreClient.
SINEW_API std::pair<Socket, RelayParent> find_relay_parent(const StoreClient::Options& root, RelayIntroduction self,
                                                           Deadline deadline);

}  // namespace sinew
