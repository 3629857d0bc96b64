#include <gtest/gtest.h>

#include <sinew/transports/ofi/ofi.hpp>

#include "transports/conformance/conformance.hpp"

namespace sinew::test {
namespace {

ofi::Options options_of(int rank, const std::string& provider) {
  ofi::Options o;
  o.rank = rank;
  o.secret = Bytes(32, std::byte{7});
  o.host_id = "this host";
  o.config.ofi_provider = provider;
  return o;
}

MakeRail over(const std::string& provider) {
  return [provider](const Exchange& world) -> Rail { return ofi::make_transport(options_of(world.rank, provider)); };
}

/// Everything by rendezvous, credit that runs out at once, and messages cut into many pieces.
MakeRail tight_over(const std::string& provider) {
  return [provider](const Exchange& world) -> Rail {
    ofi::Options o = options_of(world.rank, provider);
    o.eager_bytes = 600;
    o.eager_credit_bytes = 4096;
    o.largest_piece = 10000;
    return ofi::make_transport(o);
  };
}

constexpr const char* kTcp = "tcp;ofi_rxm";
constexpr const char* kShm = "shm";

INSTANTIATE_TEST_SUITE_P(ofi, Conformance,
                         testing::Values(Subject{"tcp_threads", over(kTcp), run_threads},
                                         Subject{"tcp_tight", tight_over(kTcp), run_threads},
                                         Subject{"tcp_processes", over(kTcp), run_as_processes},
                                         Subject{"shm_tight", tight_over(kShm), run_as_processes},
                                         Subject{"shm_processes", over(kShm), run_as_processes}),
                         subject_name);

}  // namespace
}  // namespace sinew::test
