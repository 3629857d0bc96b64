#include <chrono>
#include <memory>
#include <utility>

#include <gtest/gtest.h>

#include <sinew/core/host/host_peers.hpp>
#include <sinew/transports/ucx/ucx.hpp>

#include "transports/conformance/conformance.hpp"

namespace sinew::test {
namespace {

struct Opened {
  explicit Opened(const Exchange& world) : host(world, "this host", Deadline::after(std::chrono::seconds(60))) {}
  HostPeers host;  // tells who has died
  std::unique_ptr<Transport> transport;
};

Rail open(const Exchange& world, ucx::Options o) {
  auto opened = std::make_shared<Opened>(world);
  o.rank = world.rank;
  o.size = world.size;
  o.host_id = "this host";
  o.host = &opened->host;
  opened->transport = ucx::make_transport(o);
  return {opened->transport.get(), opened};
}

Rail make(const Exchange& world) { return open(world, {}); }

/// Everything by rendezvous, and credit that runs out at once.
Rail make_tight(const Exchange& world) {
  ucx::Options o;
  o.eager_bytes = 600;
  o.eager_credit_bytes = 4096;  // not a page
  return open(world, o);
}

Rail make_module(const Exchange& world) { return open_rail(ucx::module(), world); }

Subject subject(const char* name, MakeRail rail, std::function<void(int, const RankBody&)> run) {
  return {.name = name, .make = std::move(rail), .run = std::move(run), .notices_death = false};
}

INSTANTIATE_TEST_SUITE_P(ucx, Conformance,
                         testing::Values(subject("threads", make, run_threads),
                                         subject("little_credit", make_tight, run_threads),
                                         subject("processes", make_module, run_as_processes)),
                         subject_name);

}  // namespace
}  // namespace sinew::test
