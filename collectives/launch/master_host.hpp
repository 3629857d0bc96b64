#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <sinew/collectives/launch/variables.hpp>
#include <sinew/core/deadline.hpp>
#include <sinew/core/net/socket_address.hpp>
#include <sinew/core/store/server_search.hpp>

namespace sinew {

/// The host that the variables name for rank 0.
struct MasterHost {
  std::vector<SocketAddress> addresses;  ///< with each of the ports, the first port first
  bool is_here = false;                  ///< one of the addresses is this machine's
};

/// The first and the last port at which rank 0 may listen. An agent of torchrun holds MASTER_PORT itself.
std::pair<int, int> master_ports(const LaunchVariables& v);

/// Looks the host up, again and again until the deadline: its name may not be known yet, because a pod is starting.
/// Errors: Error{Unavailable} with the variable that names the host, and for how long it was looked up.
MasterHost find_master(const LaunchVariables& v, Deadline deadline, SearchNotice& notice);

/// True for names and addresses that mean the rank's own host. If all ranks can reach rank 0 there, they are on one
/// host.
bool names_loopback(const std::string& host);

}  // namespace sinew
