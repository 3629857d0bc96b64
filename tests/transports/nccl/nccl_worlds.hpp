#pragma once

#include <functional>
#include <string>

#include <sinew/collectives/world.hpp>

#include "fakes/fake_nccl.hpp"
#include "support/collective_case.hpp"

namespace sinew::test {

using NcclBody = std::function<void(World&, const OnDevice&)>;

/// A World over shm and the fake NCCL, with a timeout that turns a hang into a failure.
WorldOptions with_nccl(Duration timeout = std::chrono::seconds(60));

struct Devices {
  int count = 0;  ///< 0: one per rank
  int compute_capability = 90;
};

/// Ranks as threads with fake accelerators. Afterwards no communicator of NCCL is left, and none was misused.
void on_nccl(int ranks, const NcclBody& body, const WorldOptions& options = with_nccl(), Devices devices = {});

/// What the World says about the transport.
TransportStatus status_of(const World& world, const std::string& transport);

/// All-reduce of `count` times its rank + 1, in place: throws unless the sum arrives.
void require_sum(Communicator& among, const OnDevice& where, std::size_t count = 1000);

/// Plants the fault in one rank once all are through with what they did before: a communicator that ends takes along
/// the calls that slower ranks still wait for. `other`: one that the fault does not end.
void inject_on(int rank, FakeNcclFault fault, Communicator& other);

/// How a call ended, with what it said.
std::string text_of(const Status& status);

}  // namespace sinew::test
