// The conformance suite over the module as it will be loaded: from its file.
#include <sinew/conformance/conformance.hpp>
#include <sinew/transports/registry.hpp>

namespace sinew::test {
namespace {

Rail make(const Exchange& world) {
  Config config;
  config.transport_path = {MODULE_FOLDER};
  return open_rail(*find_module("mailbox", config), world);
}

INSTANTIATE_TEST_SUITE_P(mailbox, Conformance,
                         testing::Values(Subject{"threads", make, run_threads},
                                         Subject{"processes", make, run_as_processes}),
                         subject_name);

}  // namespace
}  // namespace sinew::test
