#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/core/secret.hpp>
#include <sinew/transports/tcp/tcp.hpp>

#include "transports/conformance/conformance.hpp"

namespace sinew::test {
namespace {

tcp::Options options_of(int rank) {
  tcp::Options o;
  o.rank = rank;
  o.secret = Bytes(32, std::byte{7});
  o.host_id = "this host";
  return o;
}

Rail make(const Exchange& world) { return tcp::make_transport(options_of(world.rank)); }

/// Everything by rendezvous, and credit that runs out at once.
Rail make_tight(const Exchange& world) {
  tcp::Options o = options_of(world.rank);
  o.eager_bytes = 600;
  o.eager_credit_bytes = 4096;
  return tcp::make_transport(o);
}

INSTANTIATE_TEST_SUITE_P(tcp, Conformance,
                         testing::Values(Subject{"threads", make, run_threads},
                                         Subject{"little_credit", make_tight, run_threads},
                                         Subject{"processes", make, run_as_processes}),
                         subject_name);

}  // namespace
}  // namespace sinew::test
