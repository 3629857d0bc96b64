#include <gtest/gtest.h>

#include <sinew/transports/ucx/ucx.hpp>

#include "transports/conformance/conformance.hpp"

namespace sinew::test {
namespace {

ucx::Options options_of(const Exchange& world) {
  ucx::Options o;
  o.rank = world.rank;
  o.size = world.size;
  o.host_id = "this host";
  return o;
}

Rail make(const Exchange& world) { return ucx::make_transport(options_of(world)); }

/// Everything by rendezvous, and credit that runs out at once.
Rail make_tight(const Exchange& world) {
  ucx::Options o = options_of(world);
  o.eager_bytes = 600;
  o.eager_credit_bytes = 4096;  // not a page
  return ucx::make_transport(o);
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
