#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include <sinew/core/matcher.hpp>
#include <sinew/core/net/control_thread.hpp>
#include <sinew/core/net/dialer.hpp>
#include <sinew/transports/tcp/addresses/peer_address.hpp>
#include <sinew/transports/tcp/farewell.hpp>
#include <sinew/transports/tcp/mailbox.hpp>
#include <sinew/transports/tcp/net.hpp>
#include <sinew/transports/tcp/poller.hpp>
#include <sinew/transports/tcp/tcp.hpp>

namespace sinew::tcp {

class TcpEndpoint;

/// What the endpoints of one transport share.
struct Shared {
  Options options;
  Keys keys;
  PeerAddress self;
  std::shared_ptr<ControlThread> thread;  // makes connections
  Poller poller;
  Mailbox mailbox{poller};
  BlockPool pool;
  FinishedOperations finished;
  std::size_t pending = 0;         // operations begun and not fired
  std::vector<std::byte> scratch;  // what is read and not kept across calls
  Farewells farewells{poller};
  std::map<int, TcpEndpoint*> peers;
  std::set<int> left;  // ranks whose endpoint was closed and not connected again
};

}  // namespace sinew::tcp
