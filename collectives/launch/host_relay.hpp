#pragma once

#include <string>

#include <sinew/collectives/launch/lookup.hpp>
#include <sinew/core/config.hpp>
#include <sinew/core/store/store_client.hpp>

namespace sinew {

/// When and how the ranks of several hosts reach rank 0's store over a tree of their hosts (ADR 48).
struct StartTree {
  int fan_out;     ///< the most hosts below a host
  int from_ranks;  ///< jobs of fewer ranks have no tree: each rank connects to rank 0
};

/// SINEW_START_TREE=FAN_OUT:RANKS, or what is usual.
/// Errors: Error{InvalidArgument} with the value and the form.
SINEW_API StartTree start_tree(const Lookup& lookup = process_environment());

/// Returns the options of a client that reaches the store through a relay of this host. The first process of the host
/// that asks for this store becomes the relay, and stays it until it ends. `options` are those of a client that would
/// connect to the store over TCP.
/// Errors: those of find_relay_parent().
StoreClient::Options through_host_relay(StoreClient::Options options, const Config& config, Deadline deadline);

}  // namespace sinew
