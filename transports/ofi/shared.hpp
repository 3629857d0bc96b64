#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include <sinew/core/operation.hpp>
#include <sinew/core/transport/block_pool.hpp>
#include <sinew/transports/ofi/flow.hpp>
#include <sinew/transports/ofi/frame_pool.hpp>
#include <sinew/transports/ofi/lane.hpp>
#include <sinew/transports/ofi/ofi.hpp>
#include <sinew/transports/ofi/peer_address.hpp>
#include <sinew/transports/ofi/rails.hpp>

namespace sinew::ofi {

class OfiEndpoint;

/// What the endpoints of one transport share.
struct Shared {
  struct Fault {
    OfiEndpoint* endpoint;
    Status why;
  };

  Shared(const Options& o, std::vector<Info> infos);

  Options options;
  Rails rails;
  PeerAddress self;
  BlockPool pool;
  FinishedOperations finished;
  std::size_t pending = 0;  // operations begun and not fired
  FramePool outgoing;
  FramePool incoming;
  Lanes lanes{rails.first(), outgoing, finished, {}};
  Flows flows{rails};
  std::map<int, std::unique_ptr<Lane>> lane_to;  // of every rank that was ever connected
  std::vector<OfiEndpoint*> peers;               // by rank; null: none
  std::vector<Fault> faults;                     // what progress() ends, outside everybody's functions
  std::vector<OfiEndpoint*> ending;              // that wait for the provider, with an eye on the clock

  void fault(OfiEndpoint& endpoint, Status why) { faults.push_back({&endpoint, std::move(why)}); }
  /// Nobody speaks of it any more.
  void forget(const OfiEndpoint& endpoint) noexcept;
  std::size_t largest_piece() const noexcept {
    return std::min(options.largest_piece, rails.first().info().ep_attr->max_msg_size);
  }
};

}  // namespace sinew::ofi
