#include <map>
#include <string>

#include <sinew/conformance/conformance.hpp>
#include <sinew/core/error.hpp>

namespace sinew::test {
namespace {

/// What a subject is like without peers.
struct Alone {
  std::string unavailable;
  Capabilities capabilities;
  bool wakes = false;
};

const Alone& alone(const Subject& subject) {
  static std::map<std::string, Alone> known;
  const std::string suite = testing::UnitTest::GetInstance()->current_test_info()->test_suite_name();
  const auto [at, is_new] = known.try_emplace(suite + "/" + subject.name);
  if (!is_new) return at->second;
  try {
    const Exchange world = exchange_alone();
    const Rail rail = subject.make(world);
    at->second.capabilities = rail.transport->capabilities();
    at->second.wakes = rail.transport->wake_descriptor() >= 0;
  } catch (const Error& e) {
    if (e.code() != Code::Unavailable) throw;
    at->second.unavailable = e.what();
  }
  return at->second;
}

}  // namespace

void Conformance::SetUp() {
  if (const std::string& why = alone(GetParam()).unavailable; !why.empty()) GTEST_SKIP() << "unavailable: " << why;
}

const Capabilities& Conformance::capabilities() const { return alone(GetParam()).capabilities; }

bool Conformance::wakes() const { return alone(GetParam()).wakes; }

}  // namespace sinew::test
