#include "transports/conformance/conformance.hpp"
#include "transports/ofi/pair.hpp"

namespace sinew::test {
namespace {

MakeRail over(const std::string& provider) {
  return [provider](const Exchange& world) -> Rail { return ofi::make_transport(ofi_options(world.rank, provider)); };
}

/// Everything by rendezvous, credit that runs out at once, and messages cut into many pieces.
MakeRail tight_over(const std::string& provider) {
  return [provider](const Exchange& world) -> Rail {
    ofi::Options o = ofi_options(world.rank, provider);
    o.eager_bytes = 600;
    o.eager_credit_bytes = 4096;
    o.largest_piece = 10000;
    return ofi::make_transport(o);
  };
}

/// A receive that waits for a peer that has died ends when a World says so: providers tell it of sends, if at all.
Subject subject(const char* name, MakeRail make, std::function<void(int, const RankBody&)> run) {
  return {.name = name, .make = std::move(make), .run = std::move(run), .notices_death = false};
}

INSTANTIATE_TEST_SUITE_P(ofi, Conformance,
                         testing::Values(subject("tcp_threads", over(kTcp), run_threads),
                                         subject("tcp_tight", tight_over(kTcp), run_threads),
                                         subject("tcp_processes", over(kTcp), run_as_processes),
                                         subject("shm_tight", tight_over(kShm), run_as_processes),
                                         subject("shm_processes", over(kShm), run_as_processes)),
                         subject_name);

}  // namespace
}  // namespace sinew::test
