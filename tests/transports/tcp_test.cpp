#include <unistd.h>

#include <mutex>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/core/net/secret.hpp>
#include <sinew/transports/tcp/tcp.hpp>
#include <support/certificates.hpp>
#include <support/scratch_folder.hpp>

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

Rail make_tcp(const Exchange& world) { return tcp::make_transport(options_of(world.rank)); }

/// Everything by rendezvous, and credit that runs out at once.
Rail make_tight(const Exchange& world) {
  tcp::Options o = options_of(world.rank);
  o.eager_bytes = 600;
  o.eager_credit_bytes = 4096;
  return tcp::make_transport(o);
}

/// Under TLS, each rank with a certificate of its own.
Rail make_secured(const Exchange& world) {
  static const ScratchFolder folder;
  static const Authority authority(folder / "", "job");
  static std::mutex one_at_a_time;
  tcp::Options o = options_of(world.rank);
  const std::scoped_lock lock(one_at_a_time);
  o.config.tls = authority.issue(fmt::format("rank-{}-{}", ::getpid(), world.rank));
  return tcp::make_transport(o);
}

INSTANTIATE_TEST_SUITE_P(tcp, Conformance,
                         testing::Values(Subject{"threads", make_tcp, run_threads},
                                         Subject{"little_credit", make_tight, run_threads},
                                         Subject{"processes", make_tcp, run_as_processes},
                                         Subject{"tls", make_secured, run_threads},
                                         Subject{"tls_processes", make_secured, run_as_processes}),
                         subject_name);

}  // namespace
}  // namespace sinew::test
