// The control of the conformance suite: a transport that breaks one promise, which FAULT names, must fail the case that
// is about it; with none it passes.
#include <cstdlib>
#include <map>
#include <string>

#include <sinew/conformance/conformance.hpp>
#include <sinew/core/error.hpp>
#include <sinew/transports/inproc/inproc.hpp>

#include "fakes/faulty_transport.hpp"

namespace sinew::test {
namespace {

Fault fault_asked_for() {
  const std::map<std::string, Fault> known = {
      {"none", Fault::None},
      {"completes_in_send", Fault::CompletesInSend},
      {"fires_twice", Fault::FiresTwice},
      {"swaps_sends", Fault::SwapsSends},
      {"takes_any_length", Fault::TakesAnyLength},
      {"arms_always", Fault::ArmsAlways},
  };
  const char* name = std::getenv("FAULT");
  return known.at(name == nullptr ? "none" : name);
}

Rail make(const Exchange& world) {
  return Rail(std::make_unique<FaultyTransport>(inproc::make_transport(world.rank, 0), fault_asked_for()));
}

INSTANTIATE_TEST_SUITE_P(control, Conformance, testing::Values(Subject{"threads", make, run_threads}), subject_name);

Rail make_unavailable(const Exchange&) { throw Error(Code::Unavailable, "made for a test"); }

INSTANTIATE_TEST_SUITE_P(absent, Conformance, testing::Values(Subject{"threads", make_unavailable, run_threads}),
                         subject_name);

}  // namespace
}  // namespace sinew::test
